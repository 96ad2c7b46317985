#include "jinja/unicode.h"

#include <utf8proc.h>

#include "text/utf8.h"

namespace smelt::jinja {
namespace {

constexpr uint32_t kSharpS = 0xDF;  // ß, the one letter in use whose upper case is two

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

void append_upper(std::string& out, uint32_t codepoint) {
  if (codepoint == kSharpS) {
    out += "SS";
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(codepoint))));
  }
}

void append_lower(std::string& out, uint32_t codepoint) {
  append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(codepoint))));
}

}  // namespace

bool is_space(uint32_t codepoint) {
  if (codepoint < 0x80) return (codepoint >= 9 && codepoint <= 13) || (codepoint >= 28 && codepoint <= 32);
  if (codepoint == 0x85) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(codepoint))) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return true;
    default: return false;
  }
}

Character character_at(std::string_view text, size_t begin) {
  const Utf8Char c = utf8_at(text, begin);
  return {begin, begin + c.length, c.status == Utf8::valid ? c.codepoint : 0xFFFD};
}

Character character_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && is_continuation(text[begin])) --begin;
  const Character c = character_at(text, begin);
  return c.end == end ? c : Character{end - 1, end, 0xFFFD};
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (char byte : text) count += !is_continuation(byte);
  return count;
}

std::vector<size_t> character_starts(std::string_view text) {
  std::vector<size_t> starts;
  starts.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation(text[i])) starts.push_back(i);
  }
  starts.push_back(text.size());
  return starts;
}

size_t skip_spaces(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Character c = character_at(text, begin);
    if (!is_space(c.codepoint)) break;
    begin = c.end;
  }
  return begin;
}

size_t skip_spaces_back(std::string_view text, size_t end) {
  while (end > 0) {
    const Character c = character_before(text, end);
    if (!is_space(c.codepoint)) break;
    end = c.begin;
  }
  return end;
}

std::string to_upper(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Character c = character_at(text, pos);
    append_upper(out, c.codepoint);
    pos = c.end;
  }
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Character c = character_at(text, pos);
    append_lower(out, c.codepoint);
    pos = c.end;
  }
  return out;
}

std::string to_capitalized(std::string_view text) {
  if (text.empty()) return {};
  const Character first = character_at(text, 0);
  std::string out;
  append_utf8(out, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(first.codepoint))));
  return out + to_lower(text.substr(first.end));
}

}  // namespace smelt::jinja
