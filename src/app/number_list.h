// Lists of whole numbers as they are typed: "1,2,3", and ranges as llama-bench takes them: "512-1024+256" (512, 768,
// 1024), "128-1024*2" (128, 256, 512, 1024), "1-3" (1, 2, 3).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace smelt {

// Appends them to `numbers`. Says what is wrong with the text; nothing if it is fine.
std::string read_numbers(const std::string& text, int64_t min, int64_t max, std::vector<int64_t>& numbers);

// An option that takes such lists, separated by commas, in one argument; it may be given several times.
CLI::Option* add_number_list(CLI::App& app, const char* names, std::vector<int64_t>& numbers, int64_t min, int64_t max,
                             const char* form, const std::string& help);

}  // namespace smelt
