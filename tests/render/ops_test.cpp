// Every op at every dtype: compiled code gives the bits of the evaluator, on this machine's vectors
// and on narrower ones.
#include <doctest/doctest.h>

#include <cmath>

#include "support/op_programs.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

namespace {

const EvalOptions kExact{.round_f32 = true};

void check_op(Op op, DType dtype, int lanes, const CpuTarget& target) {
  CAPTURE(name_of(op));
  CAPTURE(name_of(dtype));
  CAPTURE(lanes);
  CAPTURE(target.cpu);
  const Buffers buffers = buffers_of(op, dtype);
  Program program = elementwise(op, dtype, lanes, arity_of(op));
  CHECK((compiled(program, buffers, {}, 1, target) == evaluated(program, buffers, {}, 1, kExact)));
}

}  // namespace

TEST_CASE("every op gives the evaluator's bits at every dtype") {
  for (Op op : kElementwise)
    for (DType dtype : kNumbers)
      if (takes(op, dtype)) check_op(op, dtype, 16, host_target());
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
    const Program program = casts(from);
    const Buffers buffers = buffers_of_casts(from);
    CAPTURE(name_of(from));
    for (const CpuTarget& target : runnable_targets())
      CHECK((compiled(program, buffers, {}, 1, target) == evaluated(program, buffers, {}, 1, kExact)));
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
  int a = p.load(DType::Bool, 8, p.buffer(0), p.integer(0)), b = p.load(DType::Bool, 8, p.buffer(1), p.integer(0));
  int both = p.op(Op::And, {a, p.op(Op::Not, {b})});
  p.store(p.buffer(2), p.integer(0), both);
  p.store(p.buffer(3), p.integer(0), p.op(Op::Where, {both, p.real(2), p.cast(a, DType::F32)}));
  Buffers buffers{bytes_of<uint8_t>({0, 1, 0, 1, 2, 255, 0, 1}), bytes_of<uint8_t>({0, 0, 1, 1, 0, 1, 7, 0}), Bytes(8),
                  Bytes(32)};
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
  int x = p.load(DType::F32, 4, p.buffer(0), p.integer(0)), y = p.load(DType::F32, 4, p.buffer(1), p.integer(0));
  p.store(p.buffer(2), p.integer(0), p.op(Op::Max, {x, y}));
  p.store(p.buffer(3), p.integer(0), p.op(Op::Min, {x, y}));
  Buffers buffers{bytes_of<float>({nan, 1, -1, 5}), bytes_of<float>({2, nan, -2, 7}), Bytes(16), Bytes(16)};
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
  p.store(p.buffer(2), p.integer(0), p.bitcast(p.bitcast(p.cast(x, DType::F16), DType::U16), DType::F16));
  Buffers buffers{bytes_of<float>({1, -1, 0, -0.0F, 3.5F, -2, 1e9F, -1e-9F}), Bytes(32), Bytes(16)};
  CHECK((compiled(p.program(), buffers) == evaluated(p.program(), buffers, {}, 1, kExact)));
}
