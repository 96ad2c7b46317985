// Kernels of a batch at full size, whose blocks have more threads than any of a small model.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/machine.h"
#include "graph/args.h"
#include "support/full_size_glm.h"
#include "support/judge.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;

namespace {

constexpr size_t kMatrixBytes = 256 << 10;  // more than a table of positions

// Those take the interpreter too long: products, and attention over chunks.
bool is_large(const JudgedKernel& kernel) {
  const Refs nodes = toposort(kernel.tree);
  return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) {
    const bool is_matrix = is_given(n) && kernel.buffers[static_cast<size_t>(n->arg.i)].size() > kMatrixBytes;
    return is_matrix || n->op == Op::Var;
  });
}

}  // namespace

// 8 rows of 768 and 512 numbers are normed by 384 and 512 threads of one block.
TEST_CASE("what a batch of the full-size model computes between its products agrees with the interpreter") {
  const Machine machine = *known_machine("h100");
  const FullSizeGlm glm(GgufType::Q4_0);
  constexpr int64_t tokens = 8;
  ModelShape batch{.chunks = variable("chunks", 1, 4),
                   .context = 1088,
                   .cache_rows = 4096,
                   .local_rows = 4096,
                   .page_entries = 4096,
                   .cache_type = DType::U8,
                   .expert_places = machine.expert_places,
                   .token_block = machine.token_block,
                   .interleave = static_cast<int>(machine.warp_threads),
                   .quantise = true};
  batch.tokens = batch.rows = tokens;
  batch.tokens_side_by_side = batch.heads_together = tokens;
  const Ref root = glm.block(batch, 1).root;
  const size_t count = make_schedule(root, machine).kernels.size();
  int judged = 0;
  for (size_t number = 0; number < count; ++number) {
    const JudgedKernel kernel = kernel_of(root, {{"chunks", 1}}, number, machine);
    if (is_large(kernel)) continue;
    CAPTURE(number);
    CHECK(problem_with(kernel, {}, machine) == "");
    ++judged;
  }
  CHECK(judged >= 8);
}
