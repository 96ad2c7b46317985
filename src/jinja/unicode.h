// Characters as Python's str has them, over UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::jinja {

struct Character {
  size_t begin, end;  // in bytes
  uint32_t codepoint;
};

// What str.isspace() says, and so what strip() takes away.
bool is_space(uint32_t codepoint);
// The character that begins at, or ends at, a position. REQUIRES: there is one.
Character character_at(std::string_view text, size_t begin);
Character character_before(std::string_view text, size_t end);

size_t count_characters(std::string_view text);
// Where each character begins, and the end of the text.
std::vector<size_t> character_starts(std::string_view text);

size_t skip_spaces(std::string_view text, size_t begin);     // the first position that is no space
size_t skip_spaces_back(std::string_view text, size_t end);  // the end without spaces before it
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_capitalized(std::string_view text);  // the first character upper case, the others lower

}  // namespace smelt::jinja
