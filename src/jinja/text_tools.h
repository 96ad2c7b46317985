// Cutting and replacing in texts, as methods of str and filters share it.
#pragma once

#include <string_view>
#include <vector>

#include "jinja/text.h"

namespace smelt::jinja {

// Ends to strip.
enum class Side { left, right, both };

Text strip_spaces(const Text& text, Side side);
Text strip_characters(const Text& text, std::string_view characters, Side side);
// At most `count` times from the left; negative: everywhere. An empty `from` matches between characters.
Text replace(const Text& text, std::string_view from, const Text& to, int64_t count);
// At most `count` cuts; negative: all.
std::vector<Text> split(const Text& text, std::string_view separator, int64_t count);
std::vector<Text> split_from_right(const Text& text, std::string_view separator, int64_t count);
std::vector<Text> split_at_spaces(const Text& text, int64_t count);
std::vector<Text> split_at_spaces_from_right(const Text& text, int64_t count);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
// For HTML, as the filter escape does it; what is markup already stays.
Text escaped(const Text& text);

}  // namespace smelt::jinja
