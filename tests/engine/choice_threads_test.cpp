// The graph that chooses tokens as blocks of threads, for a GPU that is not here: the evaluator steps them, and finds
// races and missing barriers.
#include <doctest/doctest.h>

#include <random>

#include "model/choice_graph.h"
#include "support/graph_kernels.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

RandomGraph graph_of(int64_t rows, int64_t vocabulary, ChoiceKind kind) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(static_cast<size_t>(rows * vocabulary));
  for (float& x : logits) x = normal(random);
  RandomGraph g{.root = choice_graph(rows, vocabulary, kind).root};
  const auto bytes = [](const auto& list) {
    return Bytes(std::as_bytes(std::span(list)).begin(), std::as_bytes(std::span(list)).end());
  };
  g.buffers[0] = bytes(logits);
  if (kind == ChoiceKind::Greedy) return g;
  std::vector<ChoiceNumbers> choices;
  for (int64_t r = 0; r < rows; ++r)
    choices.push_back({40, share_of(0.9), distance_of(0.01), scale_of(0.8), static_cast<int64_t>(random() >> 38), 0});
  g.buffers[1] = bytes(choices);
  return g;
}

}  // namespace

TEST_CASE("threads of blocks choose the tokens that the interpreter chooses" * doctest::test_suite("generated")) {
  const Machine machine = *known_machine("h100");
  for (const ChoiceKind kind : {ChoiceKind::Greedy, ChoiceKind::Drawn})
    for (int64_t rows : {1, 2}) {
      const RandomGraph g = graph_of(rows, 1500, kind);
      const Compiled c = generate_kernels(g, machine, choose_heuristic);
      Memory memory(g, c.schedule);
      CHECK(evaluate_all(g, c, 2, memory, {.round_f32 = true}) == "");
      CHECK(judge(g, memory) == "");
    }
}

TEST_CASE("a GPU draws a token of a large vocabulary in few launches, each of which all of it shares") {
  const Machine machine = *known_machine("h100");
  const auto kernels = [&](ChoiceKind kind) {
    return make_schedule(choice_graph(1, 152064, kind).root, machine).kernels.size();
  };
  CHECK(kernels(ChoiceKind::Greedy) <= 3);
  CHECK(kernels(ChoiceKind::Drawn) <= 16);
}
