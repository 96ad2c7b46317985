// Which tasks of a kernel its first blocks have.
#include <doctest/doctest.h>

#include "support/graph_kernels.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kTokens = 8, kRows = 64, kGroups = 64, kWords = 8, kSide = 8;

// A product of 8 tokens, which a unit makes.
Tensor product_of_batch() {
  const auto i32 = [](Tensor x) { return cast(x, DType::I32); };
  const Tensor raw = input(0, {kRows / kSide, kGroups, kWords, kSide, 4}, DType::U8),
               w = reshape(permute(raw, {0, 3, 1, 2, 4}), {1, kRows, kGroups, 4 * kWords}),
               x = unsqueeze(permute(input(1, {kGroups, kTokens, 4 * kWords}, DType::I8), {1, 0, 2}), 1);
  return sum(cast(sum(i32(w) * i32(x), -1), DType::F32) * unsqueeze(input(2, {kTokens, kGroups}), 1), -1);
}

bool is_written(std::span<const std::byte> slot) {
  return std::any_of(slot.begin(), slot.end(), [](std::byte b) { return b != std::byte{0xff}; });
}

}  // namespace

TEST_CASE("the first blocks have the products by a unit, wherever these stand in the kernel") {
  const Tensor sums = sum(input(3, {kRows, 256}) * 2.0, -1), product = product_of_batch();
  for (const auto& [of_sums, of_product] : {std::pair{8, 9}, {9, 8}}) {
    RandomGraph g{.root = sink({output(of_sums, sums), output(of_product, product)})};
    for (Ref n : toposort(g.root))
      if (n->op == Op::Param) g.buffers[n->arg.i] = Bytes(smelt::testing::bytes_of(n, {}), std::byte{1});
    const Compiled c = generate_kernels(g, *known_machine("h100"), choose_heuristic);
    REQUIRE(c.programs.size() == 1);
    const Program& p = c.programs.front();
    REQUIRE(std::any_of(p.code.begin(), p.code.end(), [](const auto& x) { return x.kind == Inst::MatrixDot; }));
    Memory memory(g, c.schedule);
    std::vector<ByteSpan> spans;
    for (Ref b : c.schedule.kernels.front().buffers) spans.push_back(memory.of(b));
    REQUIRE(p.blocks > 1);
    REQUIRE(evaluate(p, spans, {}, 0, p.blocks, {.round_f32 = true}).ok());
    CHECK(is_written(memory.slot(of_product)));
    CHECK_FALSE(is_written(memory.slot(of_sums)));
    Memory all(g, c.schedule);
    CHECK(evaluate_all(g, c, p.blocks, all, {.round_f32 = true}) == "");
    CHECK(judge(g, all) == "");
  }
}
