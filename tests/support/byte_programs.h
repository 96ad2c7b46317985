// Programs of the byte instructions: sums of products of bytes and look-ups of bytes, with operands that reach the
// extremes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "support/program_builder.h"

namespace smelt::test {

constexpr int kWords = 192;  // operands of each program
// Whole registers, parts of one, and numbers of registers that are no power of two.
constexpr int kDotLanes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48};

// out[i] = dot4(sum[i], x[i], y[i]), `lanes` at a time; y may be one word for all lanes.
inline Program dots(int lanes, int64_t greatest, bool broadcast) {
  ProgramBuilder p("dots", 4);
  const int out = p.buffer(3), loop = p.loop(kWords / lanes),
            offset = p.mul(loop, p.integer(4 * lanes));
  const int sum = p.load(DType::I32, lanes, p.buffer(0), offset);
  const int x = p.load(DType::U32, lanes, p.buffer(1), offset);
  const int y = p.load(DType::U32, broadcast ? 1 : lanes, p.buffer(2), offset);
  const int dot = p.add({.kind = Inst::Value,
                         .op = Op::Dot4,
                         .dtype = DType::I32,
                         .lanes = lanes,
                         .src = {sum, x, y},
                         .arg = {.i = greatest}});
  p.store(out, offset, dot);
  p.end(loop);
  return p.program();
}

// out[i] = lut4(x[i], table), `lanes` at a time.
inline Program look_ups(int lanes, const std::vector<int64_t>& table) {
  ProgramBuilder p("look_ups", 2);
  const int out = p.buffer(1), loop = p.loop(kWords / lanes),
            offset = p.mul(loop, p.integer(4 * lanes));
  const int x = p.load(DType::U32, lanes, p.buffer(0), offset);
  p.store(out, offset,
          p.add({.kind = Inst::Value,
                 .op = Op::Lut4,
                 .dtype = DType::U32,
                 .lanes = lanes,
                 .src = {x},
                 .arg = {.list = table}}));
  p.end(loop);
  return p.program();
}

inline std::vector<std::byte> random_bytes(uint64_t seed, int lowest, int greatest) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes;
  for (int i = 0; i < 4 * kWords; ++i) {
    // The extremes often: that is where 16-bit sums would overflow.
    const uint64_t kind = random() % 4;
    const auto spread = static_cast<uint64_t>(greatest - lowest + 1);
    const int value = kind == 0   ? lowest
                      : kind == 1 ? greatest
                                  : lowest + static_cast<int>(random() % spread);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

// A table for one shuffle, and one that is too long for it.
inline std::vector<std::vector<int64_t>> byte_tables() {
  std::vector<int64_t> large;
  for (int i = 0; i < 40; ++i) large.push_back(255 - 3 * i);
  return {{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, large};
}

}  // namespace smelt::test
