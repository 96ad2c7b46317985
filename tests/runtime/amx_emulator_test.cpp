// The software form of the tile instructions, against sums written out.
#include "support/amx_emulator.h"

#include <doctest/doctest.h>

#if defined(__x86_64__) && defined(__linux__)
#include <random>
#include <vector>

#include "runtime/target.h"

using namespace smelt;
using namespace smelt::test;

namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tile 0 is C, 1 is A, 2 is B.
TileConfig config_of(int rows, int words, int columns) {
  TileConfig c;
  c.rows[0] = c.rows[1] = static_cast<uint8_t>(rows);
  c.rows[2] = static_cast<uint8_t>(words);
  c.bytes[0] = c.bytes[2] = static_cast<uint16_t>(4 * columns);
  c.bytes[1] = static_cast<uint16_t>(4 * words);
  return c;
}

struct Operands {
  int rows, words, columns;
  int64_t a_stride, b_stride;
  std::vector<uint8_t> a, b;
  std::vector<int32_t> c;  // columns of each row side by side
};

Operands operands(int rows, int words, int columns, int64_t a_stride, int64_t b_stride) {
  Operands x{rows, words, columns, a_stride, b_stride, {}, {}, {}};
  std::mt19937 random(static_cast<unsigned>(rows * 1000 + words * 50 + columns));
  x.a.resize(static_cast<size_t>(a_stride * rows));
  x.b.resize(static_cast<size_t>(b_stride * words));
  x.c.resize(static_cast<size_t>(rows * columns));
  for (uint8_t& v : x.a) v = static_cast<uint8_t>(random());
  for (uint8_t& v : x.b) v = static_cast<uint8_t>(random());
  for (int32_t& v : x.c) v = static_cast<int32_t>(random());
  return x;
}

// Raw bytes of `product`, as the assembler may not know it; C 0, A 1, B 2.
#define PRODUCT(PREFIX, OPCODE) asm volatile(".byte 0xc4, 0xe2, " PREFIX ", " OPCODE ", 0xc1" ::: "memory")

enum class Kind { SignedUnsigned, UnsignedSigned, SignedSigned, UnsignedUnsigned, Halves };

__attribute__((noinline)) void run(Kind kind, Operands& x) {
  const TileConfig config = config_of(x.rows, x.words, x.columns);
  int64_t c_stride = 4 * x.columns;
  asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" ::"a"(&config) : "memory");  // ldtilecfg [rax]
  // tileloadd tmm0, [rax + rcx], tmm1, [rdx + r9 * 4], tmm2, [r8 + rcx + 16]
  asm volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x08" ::"a"(x.c.data()), "c"(c_stride) : "memory");
  register int64_t quarter asm("r9") = x.a_stride / 4;
  asm volatile(".byte 0xc4, 0xa2, 0x7b, 0x4b, 0x0c, 0x8a" ::"d"(x.a.data()), "r"(quarter) : "memory");
  register const uint8_t* b asm("r8") = x.b.data() - 16;
  asm volatile(".byte 0xc4, 0xc2, 0x7b, 0x4b, 0x54, 0x08, 0x10" ::"r"(b), "c"(x.b_stride) : "memory");
  switch (kind) {
    case Kind::SignedUnsigned: PRODUCT("0x6a", "0x5e"); break;
    case Kind::UnsignedSigned: PRODUCT("0x69", "0x5e"); break;
    case Kind::SignedSigned: PRODUCT("0x6b", "0x5e"); break;
    case Kind::UnsignedUnsigned: PRODUCT("0x68", "0x5e"); break;
    case Kind::Halves: PRODUCT("0x6a", "0x5c"); break;
  }
  asm volatile(".byte 0xc4, 0xe2, 0x7a, 0x4b, 0x04, 0x08" ::"a"(x.c.data()), "c"(c_stride) : "memory");
  asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0" ::: "memory");  // tilerelease
}

int32_t number(uint8_t byte, bool is_signed) { return is_signed ? static_cast<int8_t>(byte) : byte; }

std::vector<int32_t> written_out(const Operands& x, bool a_is_signed, bool b_is_signed) {
  std::vector<int32_t> c = x.c;
  for (int m = 0; m < x.rows; ++m)
    for (int n = 0; n < x.columns; ++n)
      for (int i = 0; i < 4 * x.words; ++i) {
        const uint8_t a = x.a[static_cast<size_t>(m * x.a_stride + i)];
        const uint8_t b = x.b[static_cast<size_t>(i / 4 * x.b_stride + 4 * n + i % 4)];
        int32_t& sum = c[static_cast<size_t>(m * x.columns + n)];
        sum = static_cast<int32_t>(static_cast<uint32_t>(sum) +
                                   static_cast<uint32_t>(number(a, a_is_signed) * number(b, b_is_signed)));
      }
  return c;
}

float half_at(const uint8_t* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, 2);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

std::vector<float> written_out_halves(const Operands& x) {
  std::vector<float> c;
  for (int32_t sum : x.c) c.push_back(std::bit_cast<float>(sum));
  for (int m = 0; m < x.rows; ++m)
    for (int n = 0; n < x.columns; ++n)
      for (int i = 0; i < 2 * x.words; ++i)
        c[static_cast<size_t>(m * x.columns + n)] +=
            half_at(x.a.data() + m * x.a_stride + 2 * i) * half_at(x.b.data() + i / 2 * x.b_stride + 4 * n + i % 2 * 2);
  return c;
}

struct Shape {
  int rows, words, columns;
};
constexpr Shape kShapes[] = {{16, 16, 16}, {16, 8, 16}, {16, 4, 16}, {8, 8, 16}, {3, 5, 7}, {1, 1, 1}};

}  // namespace

TEST_CASE("tile products of bytes are sums of products, with every combination of signs") {
  host_target();  // asks the system for tiles, where there are some
  const AmxEmulator emulator;
  for (const Shape& s : kShapes) {
    CAPTURE(s.rows);
    CAPTURE(s.words);
    CAPTURE(s.columns);
    const auto check = [&](Kind kind, bool a_is_signed, bool b_is_signed) {
      Operands x = operands(s.rows, s.words, s.columns, 4 * s.words + 12, 4 * s.columns + 4);
      const std::vector<int32_t> expected = written_out(x, a_is_signed, b_is_signed);
      run(kind, x);
      CHECK(x.c == expected);
    };
    check(Kind::SignedUnsigned, true, false);
    check(Kind::UnsignedSigned, false, true);
    check(Kind::SignedSigned, true, true);
    check(Kind::UnsignedUnsigned, false, false);
  }
}

TEST_CASE("tile products of halves are sums of products") {
  host_target();
  const AmxEmulator emulator;
  for (const Shape& s : kShapes) {
    CAPTURE(s.rows);
    CAPTURE(s.words);
    CAPTURE(s.columns);
    Operands x = operands(s.rows, s.words, s.columns, 4 * s.words + 12, 4 * s.columns + 4);
    // Halves of 1 to 2 and floats that they are added to: what is added up is exact.
    const auto make_halves = [](std::vector<uint8_t>& bytes) {
      for (size_t i = 0; i + 1 < bytes.size(); i += 2) bytes[i] &= 0x78, bytes[i] |= 0x80, bytes[i + 1] = 0x3f;
    };
    make_halves(x.a), make_halves(x.b);
    for (int32_t& c : x.c) c = std::bit_cast<int32_t>(3.0F);
    const std::vector<float> expected = written_out_halves(x);
    run(Kind::Halves, x);
    for (size_t i = 0; i < expected.size(); ++i) CHECK(std::bit_cast<float>(x.c[i]) == expected[i]);
  }
}

TEST_CASE("instructions that are no tile instructions are not decoded") {
  const uint8_t ud2[16] = {0x0f, 0x0b}, other_map[16] = {0xc4, 0xe1, 0x78, 0x49, 0xc0},
                wide[16] = {0xc4, 0xe2, 0xf8, 0x49, 0xc0}, release[16] = {0xc4, 0xe2, 0x78, 0x49, 0xc0};
  CHECK(!decode_amx(ud2));
  CHECK(!decode_amx(other_map));
  CHECK(!decode_amx(wide));
  REQUIRE(decode_amx(release));
  CHECK(decode_amx(release)->length == 5);
}

TEST_CASE("products of tiles that do not fit are refused, and so are tiles before a configuration") {
  AmxState state;
  AmxMachine machine(state);
  const AmxInstruction product{.opcode = 0x5e, .prefix = 2, .reg = 0, .rm = 1, .other = 2, .length = 5};
  CHECK(!machine.run(product, nullptr, 0));
  TileConfig config = config_of(16, 8, 16);
  const AmxInstruction configure{.opcode = 0x49, .prefix = 0, .is_memory = true, .length = 5};
  const auto set = [&] { return machine.run(configure, reinterpret_cast<uint8_t*>(&config), 0); };
  REQUIRE(set());
  CHECK(machine.run(product, nullptr, 0));
  config.rows[2] = 9;  // another number of words than A has
  REQUIRE(set());
  CHECK(!machine.run(product, nullptr, 0));
  config.rows[2] = 17;
  CHECK(!set());
}
#endif
