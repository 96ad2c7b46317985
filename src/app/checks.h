// Checks of option values. CLI11 has such validators, but they clutter the help and let "nan" through.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

namespace smelt {

// Says what is wrong with the text of a value; nothing if it is fine.
using Check = std::function<std::string(const std::string&)>;

Check whole_number(int64_t min, int64_t max);
Check number(double min, double max);
Check not_empty();
// 0, or as many threads as can still make progress on this machine's cores: workers wait by spinning.
Check thread_number();
int most_threads();
Check one_of(std::initializer_list<const char*> names);

}  // namespace smelt
