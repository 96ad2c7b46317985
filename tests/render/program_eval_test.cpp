// What is wrong with a program is found before it is compiled, and named.
#include <doctest/doctest.h>

#include "support/program_builder.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

namespace {

std::string eval_error(const Program& program, Buffers buffers, const std::vector<int64_t>& symbols = {}) {
  REQUIRE(problem_of(program) == "");
  Status status = try_evaluate(program, buffers, symbols);
  return status.ok() ? "" : status.error().message;
}

}  // namespace

TEST_CASE("an offset outside of its buffer is named with the instruction") {
  ProgramBuilder p("copy", 2);
  int from = p.buffer(0), to = p.buffer(1), loop = p.loop(3);
  int offset = p.mul(loop, p.integer(16));
  p.store(to, offset, p.load(DType::F32, 4, from, offset));
  p.end(loop);
  CHECK(eval_error(p.program(), {Bytes(48), Bytes(48)}) == "");
  CHECK(eval_error(p.program(), {Bytes(47), Bytes(48)}) ==
        "[eval] copy: %7 = load f32x4 %0 %6: lane 3 at byte 44 is outside of buffer 0, which has "
        "47 bytes");
  CHECK(eval_error(p.program(), {Bytes(48), Bytes(32)}) ==
        "[eval] copy: store f32x4 %1 %6 %7: lane 0 at byte 32 is outside of buffer 1, which has 32 "
        "bytes");
}

TEST_CASE("negative offsets and the ends of scratch memory are found too") {
  ProgramBuilder p("before", 1, 8);
  int offset = p.symbol("offset"), from = p.symbol("from");
  p.store(p.scratch(4), offset, p.load(DType::U8, 1, p.buffer(0), from));
  CHECK(eval_error(p.program(), {Bytes(1)}, {3, 0}) == "");
  CHECK(eval_error(p.program(), {Bytes(1)}, {-4, 0}) == "");
  CHECK(eval_error(p.program(), {Bytes(1)}, {4, 0}).ends_with("byte 8 is outside of scratch, which has 8 bytes"));
  CHECK(eval_error(p.program(), {Bytes(1)}, {0, -1}).ends_with("byte -1 is outside of buffer 0, which has 1 bytes"));
}

TEST_CASE("scratch memory is written before it is read") {
  ProgramBuilder p("unwritten", 1, 64);
  int zero = p.integer(0);
  p.store(p.scratch(0), zero, p.integer(7, DType::I32));
  p.store(p.buffer(0), zero, p.load(DType::I64, 1, p.scratch(0), zero));
  CHECK(eval_error(p.program(), {Bytes(8)}).ends_with("scratch byte 0 is read before it is written"));
}

TEST_CASE("an undefined value may exist but not be stored") {
  for (bool chosen : {false, true}) {
    ProgramBuilder p("undefined", 1);
    int bits = p.op(Op::Shl, {p.integer(1, DType::I32), p.integer(32, DType::I32)});
    p.store(p.buffer(0), p.integer(0),
            p.op(Op::Where, {p.integer(chosen, DType::Bool), bits, p.integer(5, DType::I32)}));
    std::string error = eval_error(p.program(), {Bytes(4)});
    if (chosen)
      CHECK(error.ends_with("the value of lane 0 is undefined"));
    else
      CHECK(error == "");
  }
}

TEST_CASE("an integer division by zero is an error where it happens") {
  ProgramBuilder p("by_zero", 1);
  p.op(Op::Div, {p.integer(1), p.symbol("y")});
  CHECK(eval_error(p.program(), {Bytes(1)}, {1}) == "");
  CHECK(eval_error(p.program(), {Bytes(1)}, {0}).ends_with("divides by a number that is not positive"));
}

TEST_CASE("f32 is double on the way, or rounded at each step") {
  ProgramBuilder p("digits", 1);
  int big = p.real(16777216), one = p.real(1);
  p.store(p.buffer(0), p.integer(0), p.op(Op::Sub, {p.add2(big, one), big}));
  CHECK(values_of<float>(evaluated(p.program(), {Bytes(4)})[0])[0] == 1);
  CHECK(values_of<float>(evaluated(p.program(), {Bytes(4)}, {}, 1, {.round_f32 = true})[0])[0] == 0);
}

TEST_CASE("an illegal program is refused with the instruction and the reason") {
  auto problem = [](auto build) {
    ProgramBuilder p("illegal", 1);
    build(p);
    return problem_of(p.program());
  };
  CHECK(problem([](ProgramBuilder& p) { p.integer(1); }) == "");
  CHECK(problem([](ProgramBuilder& p) { p.buffer(1); }) == "%0 = buffer 1: there are 1 buffers");
  CHECK(problem([](ProgramBuilder& p) { p.loop(2); }) == "loop %2 has no end");
  CHECK(problem([](ProgramBuilder& p) {
          int x = p.integer(1);
          p.add2(x, p.real(1));
        }) == "%2 = add i64 %0 %1: operand %1 has another dtype");
  CHECK(problem([](ProgramBuilder& p) {
          int x = p.lane_index(DType::I64, 4);
          p.add2(x, p.lane_index(DType::I64, 8));
        }) == "%2 = add i64x8 %0 %1: operand %0 has 4 lanes");
  CHECK(problem([](ProgramBuilder& p) {
          int loop = p.loop(2), inside = p.add2(loop, loop);
          p.end(loop);
          p.add2(inside, inside);
        }) == "%5 = add i64 %3 %3: %3 belongs to a loop that has ended");
  CHECK(problem([](ProgramBuilder& p) { p.op(Op::Sqrt, {p.integer(4)}); }) ==
        "%1 = sqrt i64 %0: wrong dtype for this op");
  CHECK(problem([](ProgramBuilder& p) { p.op(Op::And, {p.real(4), p.real(1)}); }) ==
        "%2 = and f32 %0 %1: bitwise arithmetic on floats");
  CHECK(problem([](ProgramBuilder& p) {
          int x = p.integer(0);
          p.load(DType::F32, 1, x, x);
        }) == "%1 = load f32 %0 %0: no pointer");
  CHECK(problem([](ProgramBuilder& p) {
          p.add({.kind = Inst::Value, .op = Op::Neg, .dtype = DType::I64, .src = {3}});
        }) == "%0 = neg i64 %3: %3 is not an earlier instruction");
}
