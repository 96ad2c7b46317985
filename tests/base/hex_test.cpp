#include "base/hex.h"

#include <doctest/doctest.h>

#include <array>

using namespace smelt;

TEST_CASE("a number has sixteen digits, bytes have two each in their order") {
  CHECK(hex(uint64_t{0}) == "0000000000000000");
  CHECK(hex(uint64_t{0x0123456789abcdef}) == "0123456789abcdef");
  CHECK(hex(~uint64_t{0}) == "ffffffffffffffff");
  const std::array bytes{std::byte{0x47}, std::byte{0x00}, std::byte{0xfe}};
  CHECK(hex(bytes) == "4700fe");
  CHECK(hex(std::span<const std::byte>()) == "");
}
