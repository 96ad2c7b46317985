// Programs of the byte instructions: sums of products of bytes and look-ups of bytes, with operands that reach the
// extremes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "graph/matrix_shape.h"
#include "graph/scalar_math.h"
#include "support/program_builder.h"

namespace smelt::test {

constexpr int kWords = 192;  // operands of each program
// Whole registers, parts of one, and numbers of registers that are no power of two.
constexpr int kDotLanes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48};

inline std::vector<std::byte> random_bytes(uint64_t seed, int lowest, int greatest) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes;
  for (int i = 0; i < 4 * kWords; ++i) {
    // The extremes often: that is where 16-bit sums would overflow.
    const uint64_t kind = random() % 4;
    const auto spread = static_cast<uint64_t>(greatest - lowest + 1);
    const int value = kind == 0 ? lowest : kind == 1 ? greatest : lowest + static_cast<int>(random() % spread);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

// out[i] = dot4(sum[i], x[i], y[i]), `lanes` at a time; y may be one word for all lanes.
inline Program dots(int lanes, int64_t greatest, bool broadcast) {
  ProgramBuilder p("dots", 4);
  const int out = p.buffer(3), loop = p.loop(kWords / lanes), offset = p.mul(loop, p.integer(4 * lanes));
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

// out[i] = sum[i] + the products of x[i] and y[i] + those of x2[i] and y[i]: two sums that share y. `lanes` at a time.
inline Program dots_of_one(int lanes, int64_t greatest) {
  ProgramBuilder p("dots_of_one", 5);
  const int out = p.buffer(4), loop = p.loop(kWords / lanes), offset = p.mul(loop, p.integer(4 * lanes));
  const int y = p.load(DType::U32, lanes, p.buffer(3), offset);
  int sum = p.load(DType::I32, lanes, p.buffer(0), offset);
  for (int i : {1, 2})
    sum = p.add({.kind = Inst::Value,
                 .op = Op::Dot4,
                 .dtype = DType::I32,
                 .lanes = lanes,
                 .src = {sum, p.load(DType::U32, lanes, p.buffer(i), offset), y},
                 .arg = {.i = greatest}});
  p.store(out, offset, sum);
  p.end(loop);
  return p.program();
}

// out[i] = sum[i] + the products of x[i] and y[i] for all of x and y, a dot4 each that starts from the one before;
// `lanes` at a time. Buffers: sum, each x, each y, out. `keeps`: out has all the sums on the way, one after the other.
inline Program dots_in_a_row(int lanes, int64_t greatest, int terms, bool keeps = false) {
  ProgramBuilder p("dots_in_a_row", 2 * terms + 2);
  const int out = p.buffer(2 * terms + 1), loop = p.loop(kWords / lanes), offset = p.mul(loop, p.integer(4 * lanes));
  int sum = p.load(DType::I32, lanes, p.buffer(0), offset);
  for (int i = 1; i <= terms; ++i) {
    const int x = p.load(DType::U32, lanes, p.buffer(i), offset);
    const int y = p.load(DType::U32, lanes, p.buffer(terms + i), offset);
    sum = p.add({.kind = Inst::Value,
                 .op = Op::Dot4,
                 .dtype = DType::I32,
                 .lanes = lanes,
                 .src = {sum, x, y},
                 .arg = {.i = greatest}});
    if (keeps) p.store(out, p.add2(offset, p.integer(4 * kWords * (i - 1))), sum);
  }
  if (!keeps) p.store(out, offset, sum);
  p.end(loop);
  return p.program();
}

// Of dots_in_a_row. `extreme`: all of x is the greatest, and of y the lowest or the greatest of a signed byte.
inline std::vector<std::vector<std::byte>> dots_in_a_row_operands(int64_t greatest, int terms, int extreme = 0) {
  const int most = static_cast<int>(greatest);
  std::vector<std::vector<std::byte>> buffers{random_bytes(1, -128, 127)};
  for (int i = 0; i < terms; ++i)
    buffers.push_back(extreme != 0 ? random_bytes(2, most, most)
                                   : random_bytes(10 + static_cast<uint64_t>(i), 0, most));
  for (int i = 0; i < terms; ++i)
    buffers.push_back(extreme != 0 ? random_bytes(2, extreme, extreme)
                                   : random_bytes(40 + static_cast<uint64_t>(i), -128, 127));
  buffers.emplace_back(4 * kWords * terms);
  return buffers;
}

// out[i] = mad16(x[i], y[i], z[i]), `lanes` at a time.
inline Program mads(int lanes) {
  ProgramBuilder p("mads", 4);
  const int out = p.buffer(3), loop = p.loop(kWords / lanes), offset = p.mul(loop, p.integer(4 * lanes));
  std::vector<int> words;
  for (int i = 0; i < 3; ++i) words.push_back(p.load(DType::U32, lanes, p.buffer(i), offset));
  p.store(out, offset,
          p.add({.kind = Inst::Value, .op = Op::Mad16, .dtype = DType::U32, .lanes = lanes, .src = words}));
  p.end(loop);
  return p.program();
}

// out[i] = lut4(x[i], table), `lanes` at a time.
inline Program look_ups(int lanes, const std::vector<int64_t>& table) {
  ProgramBuilder p("look_ups", 2);
  const int out = p.buffer(1), loop = p.loop(kWords / lanes), offset = p.mul(loop, p.integer(4 * lanes));
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

// A table for one shuffle, and some that are too long for it, up to as many entries as bytes tell apart.
inline std::vector<std::vector<int64_t>> byte_tables() {
  std::vector<std::vector<int64_t>> tables = {
      {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};
  for (int size : {40, 128, 129, 256}) {
    tables.emplace_back();
    for (int i = 0; i < size; ++i) tables.back().push_back((255 - 3 * i) & 255);
  }
  return tables;
}

inline int64_t bytes_of_rows(const MatrixShape& shape) { return shape.m * shape.a_stride; }
inline int64_t bytes_of_columns(const MatrixShape& shape) {
  return std::max(shape.words() * shape.b_stride, shape.blocks * shape.block_stride);
}

// Products of matrices: out[p, i, n] = item i, lane n of a product for each of `products` neighbours of a and b.
inline Program matrix_product(const MatrixShape& shape, int products) {
  ProgramBuilder p("matrix_product", 3);
  const int a = p.buffer(0), b = p.buffer(1), out = p.buffer(2), loop = p.loop(products);
  const int a_at = p.mul(loop, p.integer(bytes_of_rows(shape)));
  const int b_at = p.mul(loop, p.integer(bytes_of_columns(shape)));
  const auto lanes = static_cast<int>(shape.n);
  const DType dtype = shape.of_halves ? DType::F32 : DType::I32;
  const int dot = p.add({.kind = Inst::MatrixDot,
                         .dtype = dtype,
                         .lanes = lanes,
                         .src = {a, a_at, b, b_at},
                         .arg = {.list = shape.list()}});
  const int begin = p.mul(loop, p.integer(4 * shape.items() * shape.n));
  for (int64_t i = 0; i < shape.items(); ++i) {
    const int at = p.add2(begin, p.integer(4 * i * shape.n));
    p.store(out, at, p.add({.kind = Inst::MatrixItem, .dtype = dtype, .lanes = lanes, .src = {dot}, .arg = {.i = i}}));
  }
  p.end(loop);
  return p.program();
}

// Bytes of any value; halves of up to some hundred, in eighths.
inline std::vector<std::vector<std::byte>> matrix_operands(const MatrixShape& shape, int products) {
  std::mt19937_64 random(7);
  std::vector<std::vector<std::byte>> buffers(3);
  buffers[0].resize(static_cast<size_t>(products * bytes_of_rows(shape)));
  buffers[1].resize(static_cast<size_t>(products * bytes_of_columns(shape)));
  buffers[2].resize(static_cast<size_t>(products * shape.items() * shape.n * 4));
  for (std::vector<std::byte>* side : {&buffers[0], &buffers[1]})
    for (size_t i = 0; i < side->size(); ++i) {
      (*side)[i] = static_cast<std::byte>(random() >> 16 & 255);
      if (!shape.of_halves || i % 2 == 0) continue;
      const double number = static_cast<double>(static_cast<int>(random() >> 16 & 255) - 128) / 8;
      const auto bits = static_cast<uint16_t>(to_bits({.f = number}, DType::BF16));
      std::memcpy(side->data() + i - 1, &bits, 2);
    }
  return buffers;
}

// One step and two, and more than are written out, of several blocks; rows ahead; few rows; halves that fill no step.
inline const MatrixShape kShapesOfHalves[] = {
    {.m = 16, .n = 16, .k = 64, .a_stride = 128, .b_stride = 64, .of_halves = true},
    {.m = 16,
     .n = 16,
     .k = 320,
     .a_stride = 640,
     .b_stride = 64,
     .of_halves = true,
     .blocks = 4,
     .block_stride = 10240},
    {.m = 16, .n = 16, .k = 96, .a_stride = 256, .b_stride = 64, .of_halves = true, .a_ahead = 4096},
    {.m = 5, .n = 16, .k = 288, .a_stride = 576, .b_stride = 64, .of_halves = true, .blocks = 2, .block_stride = 9216},
    {.m = 7, .n = 16, .k = 16, .a_stride = 32, .b_stride = 64, .of_halves = true, .blocks = 3, .block_stride = 512},
};

inline const MatrixShape kMatrixShapes[] = {
    {.m = 16, .n = 16, .k = 32, .a_stride = 64, .b_stride = 64},
    {.m = 16, .n = 16, .k = 16, .a_is_signed = false, .a_stride = 16, .b_stride = 64},
    {.m = 7, .n = 16, .k = 64, .a_stride = 64, .b_stride = 96},
    {.m = 4, .n = 8, .k = 32, .a_stride = 40, .b_stride = 32},
    {.m = 8, .n = 16, .k = 192, .a_stride = 192, .b_stride = 64},    // three instructions
    {.m = 5, .n = 16, .k = 1024, .a_stride = 1024, .b_stride = 64},  // sixteen, in a loop
    {.m = 2, .n = 32, .k = 12, .a_stride = 12, .b_stride = 128},     // wider than a tile
    {.m = 3, .n = 16, .k = 80, .a_stride = 80, .b_stride = 64},      // in no even parts
};

}  // namespace smelt::test
