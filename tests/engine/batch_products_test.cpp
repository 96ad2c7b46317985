// Products of a batch's halves whose sums are cut into parts: how many there are, what each block sends of its weights
// before its launch waits, and that the sums are those of the graph.
#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/instruction_views.h"
#include "graph/operands.h"
#include "model/product.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

const Machine kMachine = *known_machine("h100");
constexpr int64_t kTokens = 64, kRows = 128, kTerms = 512;

// x [tokens, k] in halves times a matrix of nibbles.
Tensor product_with(int slot, int64_t tasks, int64_t rows = kRows, int64_t k = kTerms,
                    int piece = static_cast<int>(kMachine.piece_bytes)) {
  const ActivationLayout layout{.rows = 8};
  Activations x = halve_activations(input(0, {kTokens, k}), layout);
  x.tasks = tasks;
  const WeightLayout packed{.interleave = 8, .piece = piece};
  return product(x, raw_weight(slot, GgufType::Q4_0, {rows}, k, "weights", packed), GgufType::Q4_0, packed);
}

// The kernel of the products; the one before it makes the halves.
JudgedKernel kernel_of_products(const std::vector<Tensor>& products) {
  Refs outputs;
  for (size_t i = 0; i < products.size(); ++i) outputs.push_back(output(8 + static_cast<int>(i), products[i]));
  return kernel_of(sink(std::move(outputs)), {}, 1, kMachine);
}

int64_t count(const Program& program, Inst kind, bool only_before_wait) {
  int64_t found = 0;
  for (const Instruction& x : program.code) {
    if (only_before_wait && x.kind == Inst::Await) break;
    found += x.kind == kind;
  }
  return found;
}

// With so many blocks, in this order; empty: the values are right.
std::string problem_with_blocks(const JudgedKernel& k, const Program& program, int64_t blocks) {
  std::vector<Bytes> after = k.buffers;
  std::vector<ByteSpan> spans(after.begin(), after.end());
  spans.resize(static_cast<size_t>(program.buffers));
  for (int64_t block = 0; block < blocks; ++block)
    if (Status s = evaluate(program, spans, symbols_of(k), block, blocks); !s) return s.error().message;
  const KernelDifference d = difference(judged(k), views(after));
  return d.worst <= kAgreement ? "" : d.where;
}

// Into how many parts the sums of a product are cut: the leading axis of what has a place.
int64_t parts_of(Tensor product) {
  if (product.ref()->op != Op::ReduceSum || operand_of(product.ref())->op != Op::Place) return 1;
  return Tensor(operand_of(product.ref())).size(0);
}

}  // namespace

TEST_CASE("sums are cut into parts until there are as many tasks as wanted, of two rounds at least") {
  CHECK(parts_of(product_with(1, 0)) == 1);
  CHECK(parts_of(product_with(1, 1)) == 1);
  CHECK(parts_of(product_with(1, 132)) == 2);               // 256 terms each
  CHECK(parts_of(product_with(1, 132, 2048, 5120)) == 8);   // 16 tiles of rows
  CHECK(parts_of(product_with(1, 132, 2048, 2880)) == 6);   // rounds of 96 terms
  CHECK(parts_of(product_with(1, 132, 10240, 2048)) == 1);  // 80 tiles
}

TEST_CASE("weights of a block's task are sent before its launch waits") {
  const JudgedKernel one = kernel_of_products({product_with(1, 2)});
  const Program program = program_of(one, {}, kMachine);
  CHECK(program.blocks == 2);
  const int64_t early = count(program, Inst::Copy, true);
  CHECK(early > 0);
  CHECK(count(program, Inst::BulkCopy, true) == 0);  // tokens, which launches before have stored
  CHECK(count(program, Inst::SignalInit, true) > 0);
  CHECK(count(program, Inst::CopyGroup, true) == 0);
  CHECK(problem_with_blocks(one, program, 2) == "");
  CHECK(problem_with_blocks(one, program, 1) == "");  // a second task sends its own
  CHECK(problem_with_blocks(one, program, 3) == "");  // one has none, and sends nothing
}

TEST_CASE("of several products in a kernel, a block sends the weights of the one that it begins with") {
  const JudgedKernel two = kernel_of_products({product_with(1, 2), product_with(2, 2)});
  const Program program = program_of(two, {}, kMachine);
  CHECK(program.blocks == 4);
  CHECK(count(program, Inst::Copy, true) > 0);
  for (int64_t blocks : {4, 3, 1}) {
    CAPTURE(blocks);
    CHECK(problem_with_blocks(two, program, blocks) == "");
  }
}

TEST_CASE("halves are made of whole words of weights, whatever lies side by side of a row") {
  for (int piece : {4, 16}) {
    CAPTURE(piece);
    const JudgedKernel k = kernel_of_products({product_with(1, 2, kRows, kTerms, piece)});
    const Program program = program_of(k, {}, kMachine);
    const auto makes = [&](Op op) {
      return std::any_of(program.code.begin(), program.code.end(), [&](const Instruction& x) { return x.op == op; });
    };
    CHECK(makes(Op::ScaledHalves));
    CHECK_FALSE(makes(Op::Halves));
    CHECK(problem_with_blocks(k, program, 2) == "");
  }
}
