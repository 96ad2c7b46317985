#include "text/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace smelt {
namespace {

constexpr uint32_t kFirstStandIn = 0x100;

struct Alphabet {
  std::array<uint32_t, 256> codepoint_of{};
  std::array<int, 512> byte_of{};  // -1: not in the alphabet

  Alphabet() {
    byte_of.fill(-1);
    uint32_t next = kFirstStandIn;
    for (int byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      codepoint_of[byte] = printable ? static_cast<uint32_t>(byte) : next++;
      byte_of[codepoint_of[byte]] = byte;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::optional<std::string> bytes_of_token_text(std::string_view text) {
  const Alphabet& letters = alphabet();
  std::string bytes;
  for (size_t pos = 0; pos < text.size();) {
    Utf8Char c = utf8_at(text, pos);
    pos += c.length;
    if (c.status != Utf8::valid || c.codepoint >= letters.byte_of.size()) return std::nullopt;
    int byte = letters.byte_of[c.codepoint];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string token_text_of_bytes(std::string_view bytes) {
  std::string text;
  for (char c : bytes) append_utf8(text, alphabet().codepoint_of[static_cast<uint8_t>(c)]);
  return text;
}

}  // namespace smelt
