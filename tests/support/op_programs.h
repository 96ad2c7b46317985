// Programs of one op each, with operands for them: every elementwise op and every cast at every dtype.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "graph/scalar_math.h"
#include "support/program_builder.h"

namespace smelt::test {

using Bytes = std::vector<std::byte>;

inline constexpr int kCount = 64;  // operands of each test
inline constexpr DType kNumbers[] = {DType::I8,  DType::U8,  DType::I16,  DType::U16, DType::I32, DType::U32,
                                     DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64};

inline constexpr Op kElementwise[] = {Op::Neg, Op::Not, Op::Sqrt, Op::Floor, Op::Add, Op::Sub,
                                      Op::Mul, Op::Div, Op::Mod,  Op::Max,   Op::Min, Op::And,
                                      Op::Or,  Op::Xor, Op::Shl,  Op::Shr,   Op::Lt,  Op::Eq};

inline Scalar random_scalar(std::mt19937_64& random, DType dtype) {
  if (is_float(dtype)) return {.f = round_to(std::uniform_real_distribution(-100.0, 100.0)(random), dtype)};
  if (dtype == DType::I64) return {.i = static_cast<int64_t>(random()) >> 34};  // products do not overflow
  return {.i = wrap(static_cast<int64_t>(random()), dtype)};
}

inline void put(Bytes& bytes, Scalar value, DType dtype) {
  uint64_t bits = to_bits(value, dtype);
  const auto* begin = reinterpret_cast<const std::byte*>(&bits);
  bytes.insert(bytes.end(), begin, begin + size_of(dtype));
}

template <class Value>
Bytes filled(DType dtype, Value value) {
  Bytes bytes;
  for (int i = 0; i < kCount; ++i) put(bytes, value(i), dtype);
  return bytes;
}

inline Bytes random_bytes(DType dtype, uint64_t seed) {
  std::mt19937_64 random(seed);
  return filled(dtype, [&](int) { return random_scalar(random, dtype); });
}

// Positive numbers, as divisors; up to `limit`, as amounts of a shift.
inline Bytes small_positive(DType dtype, uint64_t seed, int64_t lowest, int64_t limit) {
  std::mt19937_64 random(seed);
  return filled(dtype, [&](int) {
    int64_t value = lowest + static_cast<int64_t>(random() % static_cast<uint64_t>(limit - lowest));
    return Scalar{.i = value, .f = static_cast<double>(value)};
  });
}

// out[i] = op(a[i], b[i]), `lanes` at a time.
inline Program elementwise(Op op, DType dtype, int lanes, int operands) {
  ProgramBuilder p("elementwise", operands + 1);
  int out = p.buffer(operands), loop = p.loop(kCount / lanes), first = p.mul(loop, p.integer(lanes));
  int offset = p.mul(first, p.integer(size_of(dtype)));
  std::vector<int> values;
  for (int i = 0; i < operands; ++i) values.push_back(p.load(dtype, lanes, p.buffer(i), offset));
  int result = p.op(op, values);
  bool is_bool = op == Op::Lt || op == Op::Eq;
  p.store(out, is_bool ? first : offset, result);
  p.end(loop);
  return p.program();
}

inline bool is_integer_only(Op op) {
  return op == Op::Mod || op == Op::And || op == Op::Or || op == Op::Xor || op == Op::Shl || op == Op::Shr ||
         op == Op::Not;
}
inline bool is_float_only(Op op) { return op == Op::Sqrt || op == Op::Floor; }

inline bool takes(Op op, DType dtype) { return is_float(dtype) ? !is_integer_only(op) : !is_float_only(op); }

inline Bytes second_operand(Op op, DType dtype) {
  if (op == Op::Div || op == Op::Mod) return small_positive(dtype, 2, 1, 100);
  if (op == Op::Shl || op == Op::Shr) return small_positive(dtype, 2, 0, dtype == DType::I64 ? 30 : 8 * size_of(dtype));
  return random_bytes(dtype, 3);
}

inline Bytes first_operand(Op op, DType dtype) {
  return op == Op::Sqrt ? small_positive(dtype, 1, 0, 100) : random_bytes(dtype, 1);
}

// The same operands without their order: b equals a in every third element.
inline void make_some_equal(const Bytes& a, Bytes& b, DType dtype) {
  auto size = static_cast<size_t>(size_of(dtype));
  for (size_t i = 0; i < kCount; i += 3)
    std::copy_n(a.begin() + static_cast<std::ptrdiff_t>(i * size), size,
                b.begin() + static_cast<std::ptrdiff_t>(i * size));
}

// Its operands and room for its results. REQUIRES: takes(op, dtype).
inline std::vector<Bytes> buffers_of(Op op, DType dtype) {
  std::vector<Bytes> buffers{first_operand(op, dtype)};
  if (arity_of(op) == 2) {
    buffers.push_back(second_operand(op, dtype));
    if (op == Op::Lt || op == Op::Eq) make_some_equal(buffers[0], buffers[1], dtype);
  }
  buffers.emplace_back(static_cast<size_t>(kCount * size_of(dtype)));
  return buffers;
}

// out[k][i] = in[i] cast to the k-th number dtype.
inline Program casts(DType from) {
  ProgramBuilder p("casts", 12);
  int in = p.buffer(0), loop = p.loop(kCount / 16), first = p.mul(loop, p.integer(16));
  int x = p.load(from, 16, in, p.mul(first, p.integer(size_of(from))));
  for (int i = 0; i < 11; ++i)
    p.store(p.buffer(i + 1), p.mul(first, p.integer(size_of(kNumbers[i]))), p.cast(x, kNumbers[i]));
  p.end(loop);
  return p.program();
}

inline std::vector<Bytes> buffers_of_casts(DType from) {
  std::vector<Bytes> buffers{is_float(from) ? small_positive(from, 4, 0, 100) : random_bytes(from, 4)};
  for (DType to : kNumbers) buffers.emplace_back(static_cast<size_t>(kCount * size_of(to)));
  return buffers;
}

}  // namespace smelt::test
