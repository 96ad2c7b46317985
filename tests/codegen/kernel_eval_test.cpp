// The judge of options is itself judged by the interpreter of tensor graphs.
#include "codegen/kernel_eval.h"

#include <doctest/doctest.h>

#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// A graph of one kernel, output slot 9.
void check_against_graph(Ref root) {
  const JudgedKernel kernel = kernel_of(root);
  const Schedule schedule = make_schedule(root);
  REQUIRE(schedule.kernels.size() == 1);
  EvalInputs inputs;
  for (size_t i = 0; i < kernel.buffers.size(); ++i)
    if (const int64_t slot = schedule.kernels[0].buffers[i]->arg.i; slot != 9) inputs.buffers[slot] = kernel.buffers[i];
  const Array expected = eval(root, inputs).outputs.at(9);
  const auto elements = evaluate_kernel({.tree = kernel.tree, .buffers = views(kernel.buffers)});
  REQUIRE(elements.ok());
  CHECK(elements->size() == expected.values.size());
  for (const KernelElement& e : *elements) {
    const double value = is_float(e.dtype) ? e.value.f : static_cast<double>(e.value.i);
    CHECK(value == doctest::Approx(expected.values[static_cast<size_t>(e.offset / size_of(e.dtype))]).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("kernels compute what their graph says") {
  const Tensor x = input(0, {4, 32}), gain = input(1, {32});
  check_against_graph(sink({output(9, silu(x) * gain)}));
  check_against_graph(sink({output(9, rms_norm(x, gain))}));
  check_against_graph(sink({output(9, softmax(x, 1))}));
  check_against_graph(sink({output(9, top_k(x, 3))}));
  check_against_graph(sink({output(9, max(x, 0) - sum(x, 0))}));
  check_against_graph(sink({output(9, linear(x, q4_0(input(1, {6, 1, 18}, DType::U8))))}));
  check_against_graph(sink({output(9, cast(gather(x, input(1, {5}, DType::I32) % 4), DType::F16))}));
}

TEST_CASE("every elementwise op means the same to both interpreters") {
  constexpr Op kOps[] = {Op::Neg, Op::Not, Op::Exp2, Op::Log2, Op::Sqrt, Op::Floor, Op::Add, Op::Sub, Op::Mul, Op::Div,
                         Op::Mod, Op::Max, Op::Min,  Op::And,  Op::Or,   Op::Xor,   Op::Shl, Op::Shr, Op::Lt,  Op::Eq};
  for (Op op : kOps)
    for (DType dtype : {DType::F32, DType::F16, DType::I8, DType::U8, DType::I32, DType::I64}) {
      Tensor x = input(0, {8, 16}, dtype), y = input(1, {8, 16}, dtype);
      if (op == Op::Log2 || op == Op::Sqrt) x = x * x;
      if (op == Op::Div || op == Op::Mod || op == Op::Shl || op == Op::Shr)
        if (is_int(dtype)) y = maximum(y % 5, scalar(1, dtype));
      const Ref node = arity_of(op) == 1 ? unary(op, x.ref()) : binary(op, x.ref(), y.ref());
      const Ref root = sink({output(9, Tensor(node))});
      if (!verify(root, Phase::Tensor).ok()) continue;  // not for this dtype
      CAPTURE(name_of(op));
      CAPTURE(name_of(dtype));
      check_against_graph(root);
    }
}

TEST_CASE("a load outside of its buffer is named") {
  const Ref root = sink({output(9, sum(input(0, {4, 32}), 1))});
  JudgedKernel kernel = kernel_of(root);
  for (Bytes& b : kernel.buffers)
    if (b.size() == 512) b.resize(508);
  const auto elements = evaluate_kernel({.tree = kernel.tree, .buffers = views(kernel.buffers)});
  REQUIRE(!elements.ok());
  CHECK(elements.error().message.find("byte 508 is outside of param") != std::string::npos);
}

TEST_CASE("an integer above what a load says that there is at most is named") {
  const Ref i = make_range(64, constant(8), RangeKind::Loop);
  const Ref loaded = make_load(DType::U8, make(Op::Param, DType::Void, {}, {.i = 0}), i, 15);
  CHECK(loaded->min == 0);
  CHECK(loaded->max == 15);
  const Ref out = make(Op::Param, DType::Void, {}, {.i = 1});
  const Ref tree = sink({sink({make_store(out, i, loaded, std::vector{i})})});
  std::vector<Bytes> buffers{Bytes(8, std::byte{15}), Bytes(8)};
  CHECK(evaluate_kernel({.tree = tree, .buffers = views(buffers)}).ok());
  buffers[0][5] = std::byte{16};
  const auto elements = evaluate_kernel({.tree = tree, .buffers = views(buffers)});
  REQUIRE(!elements.ok());
  CHECK(elements.error().message.find("16 is not within 0 and 15") != std::string::npos);
}

TEST_CASE("a sample is spread over all of a store, first and last included") {
  const JudgedKernel kernel = kernel_of(sink({output(9, input(0, {4, 32}) * 2.0)}));
  const auto elements =
      evaluate_kernel({.tree = kernel.tree, .buffers = views(kernel.buffers), .elements_per_store = 3});
  REQUIRE(elements.ok());
  REQUIRE(elements->size() == 3);
  CHECK((*elements)[0].offset == 0);
  CHECK((*elements)[1].offset == 63 * 4);
  CHECK((*elements)[2].offset == 127 * 4);
}

TEST_CASE("of a store only elements that are wanted are computed") {
  const JudgedKernel kernel = kernel_of(sink({output(9, input(0, {4, 32}) * 2.0)}));
  int64_t asked = 0;
  const auto wants = [&](int64_t, int64_t at) { return ++asked > 0 && at >= 100 && at < 108; };
  const auto elements = evaluate_kernel({.tree = kernel.tree, .buffers = views(kernel.buffers), .wants = wants});
  REQUIRE(elements.ok());
  REQUIRE(elements->size() == 2);
  CHECK((*elements)[0].offset == 100);
  CHECK((*elements)[1].offset == 104);
  CHECK(asked >= 4 * 32);
}

TEST_CASE("differences are relative to the greatest value of a buffer") {
  const Bytes memory = [] {
    const float values[] = {100, 1.5f};
    Bytes b(8);
    std::memcpy(b.data(), values, 8);
    return b;
  }();
  const std::vector<KernelElement> exact{{0, 0, DType::F32, {.f = 100}}, {0, 4, DType::F32, {.f = 1.5}}};
  CHECK(difference(exact, {memory}).worst == 0);
  const std::vector<KernelElement> other{{0, 0, DType::F32, {.f = 99}}, {0, 4, DType::F32, {.f = 1.5}}};
  CHECK(difference(other, {memory}).worst == doctest::Approx(0.01));
  CHECK(difference({{0, 0, DType::I32, {.i = 7}}}, {memory}).worst > 1e300);
  const std::vector<KernelElement> nan{{0, 4, DType::F32, {.f = std::nan("")}}};
  CHECK(difference(nan, {memory}).worst > 1e300);
}
