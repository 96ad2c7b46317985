#include "base/printable.h"

#include <cstdint>
#include <cstdio>

namespace smelt {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the UTF-8 character at the start of `text` if it is well formed and no control
// character, otherwise 0.
size_t printable_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7F && byte(0) != '\\' ? 1 : 0;
  const size_t size = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : byte(0) >= 0xC2 ? 2 : 0;
  if (size == 0 || byte(0) > 0xF4 || text.size() < size) return 0;
  uint32_t code = byte(0) & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    if (!is_continuation(byte(i))) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  static constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  const bool control = code < 0xA0;  // U+0080 to U+009F
  const bool direction = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return code < kSmallest[size] || code > 0x10FFFF || surrogate || control || direction ? 0 : size;
}

std::string escaped(unsigned char byte) {
  switch (byte) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\\': return "\\\\";
    default: break;
  }
  char text[8];
  std::snprintf(text, sizeof text, "\\x%02x", byte);
  return text;
}

}  // namespace

std::string printable(std::string_view text, size_t most) {
  std::string result;
  size_t at = 0;
  while (at < text.size() && at < most) {
    const size_t size = printable_character(text.substr(at));
    if (size == 0) {
      result += escaped(static_cast<unsigned char>(text[at++]));
    } else {
      result += text.substr(at, size);
      at += size;
    }
  }
  return at < text.size() ? result + "..." : result;
}

}  // namespace smelt
