// The text of one small kernel, for people to read.
#include "support/golden.h"

#include <doctest/doctest.h>

#include "render/llvm.h"
#include "support/program_builder.h"

using namespace smelt;
using namespace smelt::test;

namespace {

// out[row] = sum over k of weight[row, k] * x[k], weights F16, k = 64
Program half_matvec() {
  ProgramBuilder p("half_matvec", 3);
  int out = p.buffer(0), weight = p.buffer(1), x = p.buffer(2), rows = p.symbol("rows");
  int row = p.loop(p.integer(0), rows), acc = p.acc(p.real(0), 16), k = p.loop(4);
  int row_at = p.mul(row, p.integer(128)), k_at = p.mul(k, p.integer(32));
  int w = p.cast(p.load(DType::F16, 16, weight, p.add2(row_at, k_at)), DType::F32);
  int product = p.mul(w, p.load(DType::F32, 16, x, p.mul(k, p.integer(64))));
  p.set(acc, p.add2(p.get(acc), product));
  p.end(k);
  int out_at = p.mul(row, p.integer(4));
  p.store(out, out_at, p.lane_reduce(Op::ReduceSum, p.get(acc)));
  p.end(row);
  return p.program();
}

// Four values each of what takes more than an instruction.
Program formulas() {
  ProgramBuilder p("formulas", 2);
  int in = p.buffer(0), out = p.buffer(1), zero = p.integer(0);
  int x = p.load(DType::F32, 4, in, zero), half = p.cast(p.load(DType::F16, 4, in, zero), DType::F32);
  int e = p.op(Op::Exp2, {x}), l = p.op(Op::Log2, {e}), limit = p.real(3);
  int mixed = p.op(Op::Where, {p.op(Op::Lt, {x, limit}), limit, p.op(Op::Max, {l, half})});
  p.store(out, zero, p.cast(mixed, DType::BF16));
  p.store(out, zero, p.cast(p.cast(mixed, DType::F64), DType::F16));
  int index = p.load(DType::I64, 4, in, zero), three = p.integer(3), rest = p.op(Op::Mod, {index, three});
  int quotient = p.op(Op::Div, {index, three});
  p.store(out, quotient, p.lut(p.cast(rest, DType::U8), {1, -2, 3}, DType::F32));
  return p.program();
}

}  // namespace

TEST_CASE("a matrix times a vector, as program and as LLVM IR") {
  CHECK_GOLDEN(print(half_matvec()), "render/half_matvec.program");
  CHECK_GOLDEN(render_llvm(half_matvec(), {}), "render/half_matvec.ll");
}

TEST_CASE(
    "what has no instruction is written out, for machines with and without half floats and byte "
    "shuffles") {
  CHECK_GOLDEN(render_llvm(formulas(), {}), "render/formulas.ll");
  Machine plain{.vector_bytes = 16, .shuffle_bytes = 0, .f16_convert = false};
  CHECK_GOLDEN(render_llvm(formulas(), plain), "render/formulas_plain.ll");
}

TEST_CASE("the text depends on the program alone") {
  CHECK(render_llvm(half_matvec(), {}) == render_llvm(half_matvec(), {}));
}
