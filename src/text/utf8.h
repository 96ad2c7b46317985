// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace smelt {

// Incomplete: the text ends within a character.
enum class Utf8 : uint8_t { valid, invalid, incomplete };

struct Utf8Char {
  Utf8 status;
  uint8_t length;      // bytes, at least 1; if not valid, those that one U+FFFD stands for
  uint32_t codepoint;  // of a valid one
};

// The character at `pos`. REQUIRES: pos < text.size().
Utf8Char utf8_at(std::string_view text, size_t pos);

void append_utf8(std::string& out, uint32_t codepoint);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The text with one U+FFFD for each maximal start of a character that does not go on as UTF-8 (as
// browsers, Python and Rust do it).
std::string to_valid_utf8(std::string_view text);

}  // namespace smelt
