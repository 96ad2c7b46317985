// Every op at every dtype: compiled code gives the bits of the evaluator, on this machine's vectors
// and on narrower ones.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "graph/scalar_math.h"
#include "support/program_builder.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

namespace {

constexpr int kCount = 64;  // operands of each test
constexpr EvalOptions kExact{.round_f32 = true};

constexpr DType kNumbers[] = {DType::I8,   DType::U8,  DType::I16, DType::U16,
                              DType::I32,  DType::U32, DType::I64, DType::F16,
                              DType::BF16, DType::F32, DType::F64};

Scalar random_scalar(std::mt19937_64& random, DType dtype) {
  if (is_float(dtype))
    return {.f = round_to(std::uniform_real_distribution(-100.0, 100.0)(random), dtype)};
  if (dtype == DType::I64)
    return {.i = static_cast<int64_t>(random()) >> 34};  // products do not overflow
  return {.i = wrap(static_cast<int64_t>(random()), dtype)};
}

void put(Bytes& bytes, Scalar value, DType dtype) {
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

Bytes random_bytes(DType dtype, uint64_t seed) {
  std::mt19937_64 random(seed);
  return filled(dtype, [&](int) { return random_scalar(random, dtype); });
}

// Positive numbers, as divisors; up to `limit`, as amounts of a shift.
Bytes small_positive(DType dtype, uint64_t seed, int64_t lowest, int64_t limit) {
  std::mt19937_64 random(seed);
  return filled(dtype, [&](int) {
    int64_t value = lowest + static_cast<int64_t>(random() % static_cast<uint64_t>(limit - lowest));
    return Scalar{.i = value, .f = static_cast<double>(value)};
  });
}

// out[i] = op(a[i], b[i]), `lanes` at a time.
Program elementwise(Op op, DType dtype, int lanes, int operands) {
  ProgramBuilder p("elementwise", operands + 1);
  int out = p.buffer(operands), loop = p.loop(kCount / lanes),
      first = p.mul(loop, p.integer(lanes));
  int offset = p.mul(first, p.integer(size_of(dtype)));
  std::vector<int> values;
  for (int i = 0; i < operands; ++i) values.push_back(p.load(dtype, lanes, p.buffer(i), offset));
  int result = p.op(op, values);
  bool is_bool = op == Op::Lt || op == Op::Eq;
  p.store(out, is_bool ? first : offset, result);
  p.end(loop);
  return p.program();
}

bool is_integer_only(Op op) {
  return op == Op::Mod || op == Op::And || op == Op::Or || op == Op::Xor || op == Op::Shl ||
         op == Op::Shr || op == Op::Not;
}
bool is_float_only(Op op) { return op == Op::Sqrt || op == Op::Floor; }

Bytes second_operand(Op op, DType dtype) {
  if (op == Op::Div || op == Op::Mod) return small_positive(dtype, 2, 1, 100);
  if (op == Op::Shl || op == Op::Shr)
    return small_positive(dtype, 2, 0, dtype == DType::I64 ? 30 : 8 * size_of(dtype));
  return random_bytes(dtype, 3);
}

Bytes first_operand(Op op, DType dtype) {
  return op == Op::Sqrt ? small_positive(dtype, 1, 0, 100) : random_bytes(dtype, 1);
}

// The same operands without their order: b equals a in every third element.
void make_some_equal(const Bytes& a, Bytes& b, DType dtype) {
  auto size = static_cast<size_t>(size_of(dtype));
  for (size_t i = 0; i < kCount; i += 3)
    std::copy_n(a.begin() + static_cast<std::ptrdiff_t>(i * size), size,
                b.begin() + static_cast<std::ptrdiff_t>(i * size));
}

void check_op(Op op, DType dtype, int lanes, const CpuTarget& target) {
  CAPTURE(name_of(op));
  CAPTURE(name_of(dtype));
  CAPTURE(lanes);
  CAPTURE(target.cpu);
  Buffers buffers{first_operand(op, dtype)};
  if (arity_of(op) == 2) {
    buffers.push_back(second_operand(op, dtype));
    if (op == Op::Lt || op == Op::Eq) make_some_equal(buffers[0], buffers[1], dtype);
  }
  buffers.emplace_back(static_cast<size_t>(kCount * size_of(dtype)));
  Program program = elementwise(op, dtype, lanes, arity_of(op));
  CHECK((compiled(program, buffers, {}, 1, target) == evaluated(program, buffers, {}, 1, kExact)));
}

}  // namespace

TEST_CASE("every op gives the evaluator's bits at every dtype") {
  constexpr Op kOps[] = {Op::Neg, Op::Not, Op::Sqrt, Op::Floor, Op::Add, Op::Sub,
                         Op::Mul, Op::Div, Op::Mod,  Op::Max,   Op::Min, Op::And,
                         Op::Or,  Op::Xor, Op::Shl,  Op::Shr,   Op::Lt,  Op::Eq};
  for (Op op : kOps)
    for (DType dtype : kNumbers) {
      if (is_float(dtype) ? is_integer_only(op) : is_float_only(op)) continue;
      check_op(op, dtype, 16, host_target());
    }
}

TEST_CASE("single values and narrower machines give the same bits as vectors") {
  for (DType dtype : {DType::I8, DType::U32, DType::I64, DType::F16, DType::BF16, DType::F32})
    for (Op op : {Op::Add, Op::Div, Op::Max, Op::Lt, Op::Neg}) {
      check_op(op, dtype, 1, host_target());
      check_op(op, dtype, 4, runnable_targets().back());
    }
}

TEST_CASE("every cast gives the evaluator's bits") {
  for (DType from : kNumbers) {
    ProgramBuilder p("casts", 12);
    int in = p.buffer(0), loop = p.loop(kCount / 16), first = p.mul(loop, p.integer(16));
    int x = p.load(from, 16, in, p.mul(first, p.integer(size_of(from))));
    Buffers buffers{is_float(from) ? small_positive(from, 4, 0, 100) : random_bytes(from, 4)};
    for (int i = 0; i < 11; ++i) {
      DType to = kNumbers[i];
      p.store(p.buffer(i + 1), p.mul(first, p.integer(size_of(to))), p.cast(x, to));
      buffers.emplace_back(static_cast<size_t>(kCount * size_of(to)));
    }
    p.end(loop);
    CAPTURE(name_of(from));
    for (const CpuTarget& target : runnable_targets())
      CHECK((compiled(p.program(), buffers, {}, 1, target) ==
             evaluated(p.program(), buffers, {}, 1, kExact)));
  }
}

TEST_CASE("floats become integers by truncation and bool by being other than zero") {
  ProgramBuilder p("truncate", 3);
  int x = p.load(DType::F32, 4, p.buffer(0), p.integer(0));
  p.store(p.buffer(1), p.integer(0), p.cast(x, DType::I32));
  p.store(p.buffer(2), p.integer(0), p.cast(x, DType::Bool));
  Buffers buffers{bytes_of<float>({-1.9F, 0.0F, 1.9F, -0.0F}), Bytes(16), Bytes(4)};
  for (const Buffers& after : {compiled(p.program(), buffers), evaluated(p.program(), buffers)}) {
    CHECK((values_of<int32_t>(after[1]) == std::vector<int32_t>{-1, 0, 1, 0}));
    CHECK((values_of<uint8_t>(after[2]) == std::vector<uint8_t>{1, 0, 1, 0}));
  }
}

TEST_CASE("division of negative numbers rounds down, for constants and for variables") {
  std::vector<int64_t> numbers{-9, -8, -7, -1, 0, 1, 7, 8};
  for (int64_t divisor : {1, 3, 4, 8, 1024}) {
    for (bool constant : {true, false}) {
      ProgramBuilder p("divide", 3);
      int x = p.load(DType::I64, 8, p.buffer(0), p.integer(0));
      int y = constant ? p.integer(divisor) : p.symbol("divisor");
      p.store(p.buffer(1), p.integer(0), p.op(Op::Div, {x, y}));
      p.store(p.buffer(2), p.integer(0), p.op(Op::Mod, {x, y}));
      Buffers buffers{bytes_of(numbers), Bytes(64), Bytes(64)};
      Buffers after = compiled(p.program(), buffers, {divisor});
      if (constant) CHECK((after == evaluated(p.program(), buffers)));
      for (size_t i = 0; i < numbers.size(); ++i) {
        CHECK(values_of<int64_t>(after[1])[i] == floor_div(numbers[i], divisor));
        CHECK(values_of<int64_t>(after[2])[i] == floor_mod(numbers[i], divisor));
      }
    }
  }
}

TEST_CASE("bool lies in memory as a byte, and any byte but zero is true") {
  ProgramBuilder p("bools", 4);
  int a = p.load(DType::Bool, 8, p.buffer(0), p.integer(0)),
      b = p.load(DType::Bool, 8, p.buffer(1), p.integer(0));
  int both = p.op(Op::And, {a, p.op(Op::Not, {b})});
  p.store(p.buffer(2), p.integer(0), both);
  p.store(p.buffer(3), p.integer(0), p.op(Op::Where, {both, p.real(2), p.cast(a, DType::F32)}));
  Buffers buffers{bytes_of<uint8_t>({0, 1, 0, 1, 2, 255, 0, 1}),
                  bytes_of<uint8_t>({0, 0, 1, 1, 0, 1, 7, 0}), Bytes(8), Bytes(32)};
  for (const CpuTarget& target : runnable_targets()) {
    Buffers after = compiled(p.program(), buffers, {}, 1, target);
    CHECK((values_of<uint8_t>(after[2]) == std::vector<uint8_t>{0, 1, 0, 0, 1, 0, 0, 1}));
    CHECK((values_of<float>(after[3]) == std::vector<float>{0, 2, 0, 1, 2, 1, 0, 2}));
    CHECK((after == evaluated(p.program(), buffers)));
  }
}

TEST_CASE("a maximum with NaN is the second operand") {
  float nan = std::nanf("");
  ProgramBuilder p("maximum", 4);
  int x = p.load(DType::F32, 4, p.buffer(0), p.integer(0)),
      y = p.load(DType::F32, 4, p.buffer(1), p.integer(0));
  p.store(p.buffer(2), p.integer(0), p.op(Op::Max, {x, y}));
  p.store(p.buffer(3), p.integer(0), p.op(Op::Min, {x, y}));
  Buffers buffers{bytes_of<float>({nan, 1, -1, 5}), bytes_of<float>({2, nan, -2, 7}), Bytes(16),
                  Bytes(16)};
  Buffers after = compiled(p.program(), buffers);
  CHECK(values_of<float>(after[2])[0] == 2);
  CHECK(std::isnan(values_of<float>(after[2])[1]));
  CHECK(values_of<float>(after[2])[3] == 7);
  CHECK(values_of<float>(after[3])[2] == -2);
}

TEST_CASE("bits are reinterpreted between dtypes of one size") {
  ProgramBuilder p("bits", 3);
  int x = p.load(DType::F32, 8, p.buffer(0), p.integer(0));
  int sign = p.op(Op::Shr, {p.bitcast(x, DType::U32), p.integer(31, DType::U32)});
  int one = p.bitcast(p.add2(p.integer(0x3f800000, DType::U32), sign), DType::F32);
  p.store(p.buffer(1), p.integer(0), one);
  p.store(p.buffer(2), p.integer(0),
          p.bitcast(p.bitcast(p.cast(x, DType::F16), DType::U16), DType::F16));
  Buffers buffers{bytes_of<float>({1, -1, 0, -0.0F, 3.5F, -2, 1e9F, -1e-9F}), Bytes(32), Bytes(16)};
  CHECK((compiled(p.program(), buffers) == evaluated(p.program(), buffers, {}, 1, kExact)));
}
