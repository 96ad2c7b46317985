#include "base/hex.h"

#include <cstddef>

namespace smelt {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

}  // namespace

std::string hex(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = text.size(); i-- > 0; value >>= 4) text[i] = kDigits[value & 15];
  return text;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte b : bytes) {
    text += kDigits[std::to_integer<int>(b) >> 4];
    text += kDigits[std::to_integer<int>(b) & 15];
  }
  return text;
}

}  // namespace smelt
