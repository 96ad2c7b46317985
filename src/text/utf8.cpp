#include "text/utf8.h"

namespace smelt {
namespace {

// How many bytes follow a lead byte and what the first of them may be: that one excludes overlong
// forms, surrogates and too large values (table 3-7 of the Unicode standard).
struct Lead {
  int more;
  uint8_t low = 0x80, high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {3};
  return {0};
}

}  // namespace

Utf8Char utf8_at(std::string_view text, size_t pos) {
  uint8_t first = static_cast<uint8_t>(text[pos]);
  if (first < 0x80) return {Utf8::valid, 1, first};
  Lead lead = lead_of(first);
  if (lead.more == 0) return {Utf8::invalid, 1, 0};
  uint32_t codepoint = first & (0x3Fu >> lead.more);
  for (int i = 1; i <= lead.more; ++i) {
    if (pos + i >= text.size()) return {Utf8::incomplete, static_cast<uint8_t>(i), 0};
    uint8_t byte = static_cast<uint8_t>(text[pos + i]);
    bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
    if (!fits) return {Utf8::invalid, static_cast<uint8_t>(i), 0};
    codepoint = codepoint << 6 | (byte & 0x3Fu);
  }
  return {Utf8::valid, static_cast<uint8_t>(lead.more + 1), codepoint};
}

void append_utf8(std::string& out, uint32_t codepoint) {
  auto tail = [&](int shift) { out += static_cast<char>(0x80 | (codepoint >> shift & 0x3F)); };
  if (codepoint < 0x80) {
    out += static_cast<char>(codepoint);
  } else if (codepoint < 0x800) {
    out += static_cast<char>(0xC0 | codepoint >> 6);
    tail(0);
  } else if (codepoint < 0x10000) {
    out += static_cast<char>(0xE0 | codepoint >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | codepoint >> 18);
    tail(12), tail(6), tail(0);
  }
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    Utf8Char c = utf8_at(text, pos);
    out += c.status == Utf8::valid ? text.substr(pos, c.length) : kReplacementCharacter;
    pos += c.length;
  }
  return out;
}

}  // namespace smelt
