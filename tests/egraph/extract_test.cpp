#include "egraph/extract.h"

#include <doctest/doctest.h>

#include <random>

#include "egraph/describe.h"
#include "egraph/programs.h"
#include "egraph/rules.h"
#include "egraph/terms.h"

using namespace smelt;
using namespace smelt::egraph;
using smelt::test::Programs;

namespace {

Shape dims(std::initializer_list<int64_t> sizes) {
  Shape shape;
  for (int64_t n : sizes) shape.push_back(constant(n));
  return shape;
}

ClassId input(EGraph& g, int64_t slot, std::initializer_list<int64_t> sizes) {
  return g.add({eop(Op::Param), DType::F32, {.i = slot}, dims(sizes), {}});
}

ClassId pair(EGraph& g, ClassId x, ClassId y) { return g.add({eop(Op::Sink), DType::Void, {}, {}, {x, y}}); }

// The lowest cost of all choices; nullopt where there are too many.
std::optional<double> lowest_cost(const EGraph& g, ClassId root, const CostModel& model) {
  Coster coster(g, model);
  double n = 1;
  for (const auto& c : coster.classes()) n *= double(c.nodes.size());
  if (n > 20'000) return std::nullopt;
  std::optional<double> lowest;
  while (true) {
    const auto cost = coster.cost(coster.index(g.find(root)));
    if (cost && (!lowest || cost->total < *lowest)) lowest = cost->total;
    size_t c = 0;
    while (c < coster.choice.size() && ++coster.choice[c] == coster.classes()[c].nodes.size()) coster.choice[c++] = 0;
    if (c == coster.choice.size()) return lowest;
  }
}

// Contractions and sums over a few values, some of which are said to be equal, in cycles too.
ClassId random_graph(EGraph& g, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<ClassId> made{input(g, 0, {8}), input(g, 1, {8})};
  auto any_made = [&] { return made[random() % made.size()]; };
  for (int i = 0; i < 9; ++i) {
    const ClassId x = any_made();
    if (random() % 3)
      made.push_back(contract(g, x, weight(g, 10 + int64_t(random() % 5), "w", dims({8, 8}))));
    else
      made.push_back(g.add({eop(Op::Add), DType::F32, {}, dims({8}), {x, any_made()}}));
  }
  const ClassId root = pair(g, made.back(), made[made.size() - 2]);
  for (int i = 0; i < 4; ++i) g.merge(any_made(), any_made());
  g.rebuild();
  return root;
}

}  // namespace

TEST_CASE("what two readers share is paid for once") {
  EGraph g;
  const ClassId x = input(g, 0, {1, 64});
  const ClassId y = contract(g, x, weight(g, 1, "w", dims({32, 64})));
  const ClassId a = contract(g, y, weight(g, 2, "a", dims({8, 32}))),
                b = contract(g, y, weight(g, 3, "b", dims({8, 32})));
  const CostModel model{.weight_bytes = {{1, 0.5}, {2, 1}, {3, 2}}, .variables = {}, .launch_bytes = 100};
  const Cost cost = *cost_of(g, pair(g, a, b), {}, model);
  CHECK(cost.weights == 32 * 64 * 0.5 + 8 * 32 * 1 + 8 * 32 * 2);
  CHECK(cost.values == 4 * (64 + 32 + 2 * (32 + 8)));
  CHECK(cost.kernels == 3);
  CHECK(cost.total == doctest::Approx(cost.weights + cost.values + 300).epsilon(1e-4));
}

TEST_CASE("a kernel reads what it uses: a slice, the chosen matrices, no elementwise result") {
  EGraph g;
  const ClassId x = input(g, 0, {1, 64});
  const ClassId root = g.add({eop(Op::Sqrt), DType::F32, {}, dims({1, 16}), {shrink(g, x, 1, 8, constant(16))}});
  const ClassId y = contract(g, root, weight(g, 1, "w", dims({4, 16})));
  CHECK(cost_of(g, y, {}, {})->values == 4 * (16 + 4));
  const ClassId chosen = g.add({eop(Op::Param), DType::I32, {.i = 5}, dims({1, 2}), {}});
  const ClassId z = contract(g, unsqueeze(g, x, 1), gather(g, weight(g, 2, "e", dims({8, 4, 64})), chosen));
  const Cost cost = *cost_of(g, z, {}, {.weight_bytes = {{2, 0.5}}, .variables = {}});
  CHECK(cost.weights == 2 * 4 * 64 * 0.5);
  CHECK(cost.values == 4 * (64 + 2 + 2 * 4));
}

TEST_CASE("a fold is taken where it makes fewer bytes, and refused where it makes more") {
  auto extracted = [](int64_t in, int64_t inner, int64_t out) {
    EGraph g;
    const ClassId low = contract(g, input(g, 0, {1, in}), weight(g, 1, "w", dims({inner, in})));
    const ClassId root = contract(g, low, weight(g, 2, "v", dims({out, inner})));
    saturate(g, all_rules());
    return describe(g, root, extract(g, root, {}).choice);
  };
  using Lines = std::vector<std::string>;
  CHECK(extracted(64, 512, 64) == Lines{"contract [1, 64] <- fold(v, w)"});
  CHECK(extracted(512, 64, 512) == Lines{"contract [1, 64] <- w", "contract [1, 512] <- v"});
}

TEST_CASE("a product of matrices that was written as one is taken apart where that makes fewer bytes") {
  EGraph g;
  const ClassId w = weight(g, 1, "w", dims({64, 512})), v = weight(g, 2, "v", dims({512, 64}));
  const ClassId root = contract(g, input(g, 0, {1, 512}), matrix_product(g, v, w));
  saturate(g, all_rules());
  CHECK(cost_of(g, root, {}, {})->weights == 4 * 512 * 512);
  CHECK(extract(g, root, {}).cost.weights == 2 * 4 * 64 * 512);
}

TEST_CASE("experts: a copy, or all experts first, becomes reading the chosen ones in place") {
  for (bool copy : {true, false}) {
    EGraph g;
    const ClassId x = input(g, 0, {1, 1, 2048}), w = weight(g, 1, "ffn_up_exps", dims({64, 1536, 2048}));
    const ClassId i = g.add({eop(Op::Param), DType::I32, {.i = 5}, dims({1, 4}), {}});
    const ClassId root = copy ? contract(g, x, gathered_copy(g, w, i)) : egraph::select(g, contract(g, x, w), i);
    CHECK(saturate(g, all_rules()).why == Stopped::Saturated);
    const CostModel model{.weight_bytes = {{1, 18.0 / 32}}, .variables = {}};
    const double chosen = 4 * 1536 * 2048 * 18.0 / 32;
    if (!copy) {  // the result itself is a view: ask for what made it
      const Choice first{};
      CHECK(cost_of(g, root, first, model)->weights == 16 * chosen);
    }
    const Extraction best = extract(g, root, model);
    CHECK(best.cost.weights == chosen);
    CHECK(best.cost.kernels == 1);
    CHECK(describe(g, root, best.choice) == std::vector<std::string>{"contract [1, 4, 1536] <- gather(ffn_up_exps)"});
  }
}

TEST_CASE("the choice without cycles is taken") {
  EGraph g;
  const ClassId x = input(g, 0, {8}), w = weight(g, 1, "w", dims({8, 8}));
  const ClassId y = contract(g, x, w), z = contract(g, y, w);
  g.merge(y, z);  // y = w y: the shortest way to y leads through y
  g.rebuild();
  CHECK(!cost_of(g, y, {{g.find(y), 1}}, {}));
  CHECK(extract(g, y, {}).cost.kernels == 1);
}

TEST_CASE("on small graphs the search finds what trying everything finds") {
  int compared = 0, equal = 0, better = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    EGraph g;
    const ClassId root = random_graph(g, seed);
    CostModel model{
        .weight_bytes = {{10, 0.5}, {11, 1}, {12, 2}, {13, 4}, {14, 8}}, .variables = {}, .launch_bytes = 64};
    const auto lowest = lowest_cost(g, root, model);
    if (!lowest) continue;
    const double found = extract(g, root, model).cost.total;
    CHECK(found >= *lowest);
    CHECK(found <= cost_of(g, root, {}, model)->total);
    ++compared;
    better += found < cost_of(g, root, {}, model)->total - 64;
    equal += found <= *lowest * (1 + 1e-12);
  }
  CHECK(compared > 100);
  CHECK(equal == compared);
  CHECK(better > 20);  // than the program that was there first
}

TEST_CASE("matrices beside each other: the search finds the sharing that trying everything finds") {
  for (int matrices : {2, 3}) {
    EGraph g;
    const ClassId x = input(g, 0, {1, 64});
    std::vector<ClassId> parts;
    for (int i = 0; i < matrices; ++i)
      parts.push_back(contract(g, x, weight(g, 1 + i, "w" + std::to_string(i), dims({16 + i, 64}))));
    const ClassId root = g.add({eop(Op::Sink), DType::Void, {}, {}, parts});
    saturate(g, all_rules());
    const Extraction best = extract(g, root, {});
    CHECK(best.cost.kernels == 1);
    if (const auto lowest = lowest_cost(g, root, {})) CHECK(best.cost.total == *lowest);
  }
}
