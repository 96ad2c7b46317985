// Products of a batch of generated tokens on a GPU: by the unit of a warp where tokens lie side by side, and with the
// bits that each token has alone.
#include <doctest/doctest.h>

#include "model/product.h"
#include "support/graph_kernels.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kTerms = 2048, kRows = 64;
const ActivationBlocks kBlocks{.most = 32};

Machine gpu() { return *known_machine("h100"); }

ActivationLayout layout_for(int64_t tokens) { return {.rows = tokens % 8 == 0 ? 8 : 1}; }

Tensor numbers(int64_t tokens) { return param(0, DType::F32, {tokens, kTerms}, "x"); }

// y = W x for W [rows, terms] of a format and x [tokens, terms].
Ref product_of(GgufType type, Tensor x, int64_t rows = kRows) {
  const int64_t tokens = x.size(0);
  const WeightLayout layout{.interleave = gpu().rows_side_by_side(), .piece = static_cast<int>(gpu().piece_bytes)};
  const Tensor raw = raw_weight(1, type, {rows}, kTerms, "w", layout);
  return sink({output(2, product(quantise_activations(x, layout_for(tokens), kBlocks), raw, type, layout))});
}

// Steps of 1/128, of which each block has the greatest, so that bytes stand for them exactly.
Bytes exact_numbers(size_t bytes, std::mt19937_64& random) {
  std::vector<float> values(bytes / 4);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (i % 32 == 5 ? 127.0f : static_cast<float>(random() % 255) - 127.0f) / 128;
  const auto all = std::as_bytes(std::span(values));
  return {all.begin(), all.end()};
}

RandomGraph with_numbers(Ref root) {
  RandomGraph g{.root = root};
  for (Ref n : toposort(root)) {
    if (n->op != Op::Param) continue;
    int64_t bytes = size_of(n->dtype);
    for (Ref d : n->shape) bytes *= *const_int(d);
    std::mt19937_64 random(7 + static_cast<uint64_t>(n->arg.i));
    Bytes& buffer = g.buffers[n->arg.i];
    buffer = is_float(n->dtype) ? exact_numbers(static_cast<size_t>(bytes), random)
                                : random_bytes(static_cast<size_t>(bytes), n->dtype, random);
    if (n->dtype == DType::U8)
      for (std::byte& b : buffer) b &= std::byte{0x37};  // scales of ordinary size
  }
  return g;
}

struct Ran {
  std::vector<Program> programs;
  Bytes out;
};

Ran run(const RandomGraph& g) {
  const Compiled c = generate_kernels(g, gpu(), choose_heuristic);
  Memory memory(g, c.schedule);
  REQUIRE(evaluate_all(g, c, 3, memory, {.round_f32 = true}) == "");
  REQUIRE(judge(g, memory) == "");
  const auto out = memory.slot(2);
  return {c.programs, Bytes(out.begin(), out.end())};
}

bool has_fragments(const Program& program) {
  return std::any_of(program.code.begin(), program.code.end(),
                     [](const Instruction& x) { return x.kind == Inst::MatrixDot; });
}

}  // namespace

TEST_CASE("the bytes of tokens that lie side by side are made where their numbers are, and are the same") {
  for (int64_t tokens : {8, 32}) {
    // So many rows that the product is no small kernel, whose blocks make bytes for themselves.
    const RandomGraph g = with_numbers(product_of(GgufType::Q4_0, place(numbers(tokens) * 2.0), 8 * kRows));
    CHECK(generate_kernels(g, gpu(), choose_heuristic).schedule.kernels.size() == 2);
    CHECK(run(g).programs.size() == 2);
  }
}

TEST_CASE("products of a batch go by the unit, with the bits of each token alone") {
  for (GgufType type : {GgufType::Q4_0, GgufType::Q8_0, GgufType::Q4_K, GgufType::Q6_K, GgufType::MXFP4})
    for (int64_t tokens : {8, 32}) {
      CAPTURE(name_of(type));
      CAPTURE(tokens);
      const RandomGraph batch = with_numbers(product_of(type, numbers(tokens)));
      const Ran together = run(batch);
      CHECK(std::any_of(together.programs.begin(), together.programs.end(), has_fragments));
      for (int64_t t : {int64_t{0}, tokens - 1}) {
        RandomGraph one = with_numbers(product_of(type, numbers(1)));
        const Bytes& all = batch.buffers.at(0);
        constexpr int64_t kRowBytes = kTerms * 4;
        one.buffers[0] = Bytes(all.begin() + t * kRowBytes, all.begin() + (t + 1) * kRowBytes);
        const Ran alone = run(one);
        const Bytes row(together.out.begin() + t * kRows * 4, together.out.begin() + (t + 1) * kRows * 4);
        CHECK(row == alone.out);
      }
    }
}
