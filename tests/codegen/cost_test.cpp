// Bytes, operations and words of kernels that are known.
#include "codegen/cost.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/footprint.h"
#include "graph/range_kind.h"
#include "schedule/schedule.h"
#include "support/kernel_tree.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// Bytes read by argument, smallest first.
std::vector<double> reads_of(const KernelCost& cost) {
  std::vector<double> out;
  for (const BufferCost& b : cost.buffers)
    if (b.read > 0) out.push_back(b.read);
  std::sort(out.begin(), out.end());
  return out;
}

Ref range(int64_t id, int64_t size) {
  return make(Op::Range, DType::I64, {constant(size)}, {.i = id, .list = {static_cast<int64_t>(RangeKind::Loop)}});
}

}  // namespace

TEST_CASE("elementwise work reads and writes every element once") {
  const KernelCost cost = cost_of(kernel_tree(input(0, {64, 32}) * input(1, {32}) + 1.0));
  CHECK(reads_of(cost) == std::vector<double>{32 * 4, 64 * 32 * 4});
  CHECK(cost.written == 64 * 32 * 4);
  CHECK(cost.float_ops == 2 * 64 * 32);
}

TEST_CASE("a quantised matrix counts its blocks, not its values") {
  const KernelCost cost = cost_of(kernel_tree(linear(input(0, {1, 256}), q4_0(input(1, {512, 8, 18}, DType::U8)))));
  CHECK(reads_of(cost) == std::vector<double>{256 * 4, 512 * 8 * 18});
  CHECK(cost.written == 512 * 4);
  CHECK(cost.float_ops >= 2.0 * 512 * 256);  // a product and a sum of each
  CHECK(cost.float_ops <= 3.2 * 512 * 256);  // and q - 8; the scale has left the inner sum
  CHECK(cost.int_ops >= 512 * 256);
  for (const BufferCost& b : cost.buffers) CHECK(!b.gathered);
}

TEST_CASE("products of bytes and their sums count as such, those of floats do not") {
  const Tensor x = input(0, {1, 256}, DType::I8), matrix = input(1, {64, 256}, DType::U8);
  const KernelCost bytes = cost_of(kernel_tree(sum(cast(x, DType::I32) * cast(matrix, DType::I32), -1)));
  CHECK(bytes.byte_ops == 2 * 64 * 256);
  CHECK(bytes.int_ops >= bytes.byte_ops);
  CHECK(cost_of(kernel_tree(linear(input(0, {1, 256}), input(1, {64, 256})))).byte_ops == 0);
}

TEST_CASE("gathered rows count what the indices can reach") {
  const Tensor table = input(0, {1000, 64}), rows = input(1, {3}, DType::I32);
  const KernelCost cost = cost_of(kernel_tree(gather(table, rows) * 2.0));
  CHECK(reads_of(cost) == std::vector<double>{3 * 4, 3 * 64 * 4});
  int gathered = 0;
  for (const BufferCost& b : cost.buffers) gathered += b.gathered;
  CHECK(gathered == 1);
}

TEST_CASE("symbolic sizes count with the values given, or with the greatest") {
  const Ref tree = kernel_tree(input(0, {variable("n", 1, 100), 8}) * 2.0);
  CHECK(cost_of(tree, {{"n", 5}}).read == 5 * 8 * 4);
  CHECK(cost_of(tree).read == 128 * 8 * 4);  // of kernels: the next power of two
}

TEST_CASE("slices of one buffer are counted together, overlaps once") {
  const Tensor x = input(0, {64});
  CHECK(cost_of(kernel_tree(slice(x, 0, 0, 48) + slice(x, 0, 16, 48))).read == 64 * 4);
  CHECK(cost_of(kernel_tree(slice(x, 0, 0, 16) + slice(x, 0, 48, 16))).read == 32 * 4);
}

TEST_CASE("footprints of patterns") {
  const Ref i = range(1, 4), j = range(2, 16);
  const Pattern p = pattern_of(i * 288 + j * 18 + 7, 2);
  CHECK(p.first == 7);
  REQUIRE(p.steps.size() == 1);  // neighbouring loops are one
  CHECK(p.steps[0] == Pattern::Step{18, 64});
  CHECK(distinct_bytes({p}) == 128);
  CHECK(distinct_bytes({p, p}) == 128);
  CHECK(distinct_bytes({p, pattern_of(i * 288 + j * 18 + 9, 16)}) == 64 * 18);
  CHECK(distinct_bytes({pattern_of(i * 4 + j * 4, 4)}) == 19 * 4);  // a sliding window
  CHECK(distinct_bytes({}) == 0);
}

TEST_CASE("words name reductions with their sizes") {
  CHECK(operations_in_words(kernel_tree(sum(input(0, {8, 32}), 1))) == "8 sums of 32");
  CHECK(operations_in_words(kernel_tree(top_k(input(0, {1, 64}), 4))) == "top 4 of 64");
  CHECK(operations_in_words(kernel_tree(input(0, {8}) + 1.0)) == "elementwise");
  CHECK(operations_in_words(kernel_tree(sum(input(0, {variable("n", 1, 100), 32}), 1))) == "n sums of 32");
}

TEST_CASE("tasks and lanes come from the options") {
  const Ref tree = kernel_tree(linear(input(0, {1, 256}), input(1, {512, 256})));
  const CodegenResult chosen = generate({.tree = tree, .name = "k"});
  const KernelShape shape = shape_of(tree, chosen.opts, Machine{});
  CHECK(shape.tasks > 1);
  CHECK(shape.scalar_share == 0);
  const KernelShape serial = shape_of(tree, KernelOpts(tree->src.size()), Machine{});
  CHECK(serial.tasks == 1);
  CHECK(serial.scalar_share == 1);
}

TEST_CASE("attention counts the rows of the cache up to the position, where that is known") {
  const Dim length = Dim(Dim(variable("chunks", 1, 8)).ref * 64);
  const Tensor q = input(0, {4, 32}), cache = input(1, {512, 32}), position = input(2, {1}, DType::I32);
  const Schedule schedule = make_schedule(sink({output(9, attention(q, cache, position, length, 16))}));
  double known = 0, unknown = 0;
  for (const Kernel& k : schedule.kernels) {
    for (size_t i = 0; i < k.buffers.size(); ++i) {
      if (k.buffers[i]->op != Op::Param || k.buffers[i]->arg.i != 1) continue;
      BufferContents contents;
      for (size_t j = 0; j < k.buffers.size(); ++j)
        if (k.buffers[j]->op == Op::Param && k.buffers[j]->arg.i == 2) contents[static_cast<int64_t>(j)] = 9;
      known = std::max(known, cost_of(k.tree, {{"chunks", 1}}, contents).buffers[i].read);
      unknown = std::max(unknown, cost_of(k.tree, {{"chunks", 1}}).buffers[i].read);
    }
  }
  CHECK(known == 16 * 32 * 4);  // in steps of 16 rows
  CHECK(unknown == 64 * 32 * 4);
}

TEST_CASE("a row whose page is looked up is one row") {
  const Ref token = range(1, 8), pages = make(Op::Param, DType::I32, {}, {.i = 0});
  const Ref position = cast(make(Op::Load, DType::I32, {pages, token * 4}), DType::I64);
  const Pattern p = pattern_of((position / 64) * 64 * 100 + (position % 64) * 100, 4);
  CHECK(p.gathered);
  CHECK(distinct_bytes({p}) == 8 * 4);
}
