#include "graph/verify.h"

#include "graph/check_rewrite.h"
#include "graph/range_kind.h"
#include "graph/tensor.h"
#include "graph/views.h"

using namespace smelt;

namespace {

std::string problem(Ref root, Phase phase) {
  Status status = verify(root, phase);
  return status ? "" : status.error().message;
}

Ref loop(int64_t id, Ref size, RangeKind kind = RangeKind::Loop) {
  return make(Op::Range, DType::I64, {size}, {.i = id, .list = {static_cast<int64_t>(kind)}});
}

const Ref x = make(Op::Param, DType::F32, {}, {.i = 0}), y = make(Op::Param, DType::F32, {}, {.i = 1});
const Ref i = loop(0, constant(8)), k = loop(64, constant(16), RangeKind::Reduce);
const Ref lane = loop(65, constant(16), RangeKind::Lane), copies = loop(66, constant(2), RangeKind::Unroll);

Ref load(Ref index) { return make(Op::Load, DType::F32, {x, index * 4}); }
Ref store(Ref index, Ref value, Refs ranges) {
  Refs src{y, index * 4, value};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return make(Op::Store, DType::Void, src);
}
Ref total(Ref value, Ref over) { return make(Op::ReduceSum, DType::F32, {value, over}); }

}  // namespace

TEST_CASE("good tensor graphs pass") {
  Ref n = variable("n", 1, 64);
  Tensor a = param(0, DType::F32, {n, 256}, "a"), w = param(1, DType::U8, {64, 16, 18}, "w");
  Tensor d = cast(bitcast(slice(w, -1, 0, 2), DType::F16), DType::F32) * cast(slice(w, -1, 2, 16), DType::F32);
  Tensor product = linear(a, reshape(d, {64, 256}));
  Tensor written = write_rows(param(2, DType::F32, {128, 64}, "cache"), iota({Dim(n)}, 0), 0, product);
  CHECK(problem(sink({output(3, softmax(product, 1)), written.ref(), output(4, top_k(product, 4))}), Phase::Tensor) ==
        "");
  CHECK(problem(sink({output(3, softmax_average(product, permute(product, {0, 1}), 1))}), Phase::Tensor) == "");
  CHECK(problem(sink({output(5, gather(written, top_k(product, 4)))}), Phase::Tensor) == "");
}

TEST_CASE("bad tensor graphs are named") {
  Shape four{constant(4)}, five{constant(5)};
  Ref a = make(Op::Param, DType::F32, {}, {.i = 0}, four), b = make(Op::Param, DType::I32, {}, {.i = 0}, four);
  auto in_sink = [](Ref node) { return problem(sink({output(0, Tensor(node))}), Phase::Tensor); };
  CHECK(in_sink(make(Op::Add, DType::F32, {a, b}, {}, four)) ==
        "[verify] tensor: add f32 in param0 + param0: its sources have dtypes f32 and i32");
  CHECK(in_sink(make(Op::Neg, DType::F32, {a}, {}, five)) ==
        "[verify] tensor: neg f32 in neg(param0): its sources are not of its shape");
  CHECK(in_sink(make(Op::Reshape, DType::F32, {a}, {}, five)) ==
        "[verify] tensor: reshape f32: it wants as many elements as its source");
  CHECK(in_sink(make(Op::Shrink, DType::F32, {a}, {.list = {2}}, four)) ==
        "[verify] tensor: shrink f32: it reaches outside its source");
  CHECK(in_sink(make(Op::ReduceSum, DType::F32, {a}, {.list = {1}})) ==
        "[verify] tensor: reduce_sum f32: it wants its axes as list=[axis]");
  CHECK(in_sink(make(Op::Exp2, DType::I32, {b}, {}, four)) ==
        "[verify] tensor: exp2 i32 in exp2(param0): it wants a float");
  CHECK(in_sink(load(constant(0))) == "[verify] tensor: load f32: it belongs to kernels");
  CHECK(problem(a, Phase::Tensor) == "[verify] tensor: param f32: the root is not a sink");
  CHECK(problem(sink({a}), Phase::Tensor) == "[verify] tensor: sink void: it wants outputs and writes");
}

TEST_CASE("a loop inside a loop of the same number is refused, one beside it is not") {
  const Ref sum = total(load(k), k), other = total(load(k * 2), loop(64, constant(16), RangeKind::Reduce));
  CHECK(problem(sink({store(i, sum + other, {i})}), Phase::Kernel) == "");
  const std::string twice = "it loops over r64 around another loop of that number";
  const Ref in_itself = total(sum * load(k), k);
  CHECK(problem(sink({store(i, in_itself, {i})}), Phase::Kernel) == "[verify] kernel: reduce_sum f32: " + twice);
  const Ref longer = loop(64, constant(32));
  CHECK(problem(sink({store(longer, sum, {longer})}), Phase::Kernel) == "[verify] kernel: store void: " + twice);
}

TEST_CASE("a range has a number that its parts can be numbered by") {
  const Ref most = loop((int64_t{1} << 48) - 1, constant(8)), more = loop(int64_t{1} << 48, constant(8));
  CHECK(problem(sink({store(most, load(most), {most})}), Phase::Kernel) == "");
  CHECK(problem(sink({store(more, load(more), {more})}), Phase::Kernel) ==
        "[verify] kernel: range i64: it wants a number of at most 48 bits");
}

TEST_CASE("numbers of parts of ranges stand where the whole stood") {
  const int64_t row = output_range(0), column = output_range(1), sum = reduce_range(0);
  CHECK(range_order(outer_part(row)) < range_order(inner_part(row)));
  CHECK(range_order(inner_part(inner_part(row))) < range_order(column));
  CHECK(range_order(inner_part(column)) < range_order(outer_part(outer_part(sum))));
  CHECK(is_part(outer_part(row)));
  CHECK(!is_part(sum));
  CHECK(has_parts((int64_t{1} << 47) - 1));
  CHECK(!has_parts(int64_t{1} << 47));
}

TEST_CASE("good kernels pass") {
  Ref rows = sink({store(i, total(load(i * 16 + k), k), {i})});
  CHECK(problem(rows, Phase::Kernel) == "");
  CHECK(problem(rows, Phase::Expanded) == "");
  CHECK(problem(sink({rows, rows}), Phase::Kernel) == "");
  Ref lanes = make(Op::LaneReduce, DType::F32, {load(i * 16 + lane), lane}, {.i = static_cast<int64_t>(Op::ReduceSum)});
  CHECK(problem(sink({store(i, lanes, {i})}), Phase::Expanded) == "");
  Ref best = make(Op::TopK, DType::I32, {load(k), k}, {.i = 2});
  CHECK(problem(sink({store(constant(0), make(Op::TopKLane, DType::I32, {best}, {.i = 1}), {})}), Phase::Kernel) == "");
  Ref triangle = loop(67, i, RangeKind::Reduce);
  CHECK(problem(sink({store(i, total(load(triangle), triangle), {i})}), Phase::Kernel) == "");
}

TEST_CASE("what a kernel reads on chip, an earlier nest has stored") {
  const Ref local = make(Op::Local, DType::F32, {}, {.list = {32}});
  const Ref maker = sink({make(Op::Store, DType::Void, {local, i * 4, load(i), i})});
  const Ref reader = sink({store(i, make(Op::Load, DType::F32, {local, i * 4}), {i})});
  const auto said = [](Ref tree) {
    const Status status = verify_kernel(tree, "kernel", {});
    return status ? "" : status.error().message;
  };
  CHECK(said(sink({maker, reader})) == "");
  const std::string problem = "[verify] kernel: load f32: no nest of kernel stores before what it reads on chip";
  CHECK(said(sink({reader, maker})) == problem);
  CHECK(said(sink({reader})) == problem);
}

TEST_CASE("bad kernels are named") {
  auto in_sink = [](Ref s, Phase phase = Phase::Kernel) { return problem(sink({s}), phase); };
  CHECK(in_sink(store(i, load(k), {i})) == "[verify] kernel: store void: it uses r64 outside of its loop");
  CHECK(in_sink(store(i, total(load(k), k) + load(k), {i})) ==
        "[verify] kernel: store void: it uses r64 outside of its loop");
  CHECK(in_sink(store(i, load(i), {i, i})) == "[verify] kernel: store void: it has a range twice");
  CHECK(in_sink(store(i, load(i), {i, constant(3)})) ==
        "[verify] kernel: store void: it wants ranges after its values");
  CHECK(in_sink(store(i, x, {i})) == "[verify] kernel: store void: it uses a buffer as a value");
  CHECK(in_sink(store(i, make(Op::ReduceSum, DType::F32, {load(i)}), {i})) ==
        "[verify] kernel: reduce_sum f32: it has no ranges");
  CHECK(in_sink(store(i, total(load(copies), copies), {i}), Phase::Expanded) ==
        "[verify] expanded: range i64: unrolled ranges are written out");
  CHECK(in_sink(store(i, total(load(lane), lane), {i}), Phase::Expanded) ==
        "[verify] expanded: reduce_sum f32: lanes leave a reduction by lane_reduce");
  CHECK(in_sink(store(i, make(Op::Iota, DType::I64, {}, {}, {constant(4)}), {i})) ==
        "[verify] kernel: iota i64: values of kernels are scalars");
  CHECK(in_sink(store(i, make_load(DType::F32, x, i, 15), {i})) ==
        "[verify] kernel: load f32: only integers have a greatest one");
}
