#include "egraph/egraph.h"

#include <doctest/doctest.h>

#include "egraph/saturate.h"
#include "egraph/terms.h"

using namespace smelt;
using namespace smelt::egraph;

namespace {

ClassId leaf(EGraph& g, int64_t slot) { return g.add({eop(Op::Param), DType::F32, {.i = slot}, {constant(4)}, {}}); }
ClassId neg(EGraph& g, ClassId x) { return g.add({eop(Op::Neg), DType::F32, {}, {constant(4)}, {x}}); }
ClassId plus(EGraph& g, ClassId x, ClassId y) { return g.add({eop(Op::Add), DType::F32, {}, {constant(4)}, {x, y}}); }

}  // namespace

TEST_CASE("a node added twice is one class") {
  EGraph g;
  const ClassId x = leaf(g, 0);
  CHECK(leaf(g, 0) == x);
  CHECK(leaf(g, 1) != x);
  CHECK(neg(g, x) == neg(g, x));
  CHECK(g.node_count() == 3);
}

TEST_CASE("what is made of equal values is equal, all the way up") {
  EGraph g;
  const ClassId a = leaf(g, 0), b = leaf(g, 1);
  const ClassId up_a = neg(g, neg(g, neg(g, a))), up_b = neg(g, neg(g, neg(g, b)));
  CHECK(g.find(up_a) != g.find(up_b));
  CHECK(g.merge(a, b));
  CHECK(!g.merge(b, a));
  g.rebuild();
  CHECK(g.find(up_a) == g.find(up_b));
  CHECK(g.classes().size() == 4);
  CHECK(neg(g, b) == g.find(neg(g, a)));
}

TEST_CASE("many merges are restored by one rebuild") {
  EGraph g;
  std::vector<ClassId> leaves, sums;
  for (int i = 0; i < 50; ++i) leaves.push_back(leaf(g, i));
  for (int i = 0; i < 50; ++i)
    for (int j = 0; j < 50; ++j) sums.push_back(plus(g, leaves[i], leaves[j]));
  for (int i = 1; i < 50; ++i) g.merge(leaves[i - 1], leaves[i]);
  g.rebuild();
  CHECK(g.classes().size() == 2);
  CHECK(g.node_count() == 51);  // 50 leaves in one class, and one sum
  CHECK(g.at(sums[0]).nodes.size() == 1);
}

TEST_CASE("a class may contain itself") {
  EGraph g;
  const ClassId x = leaf(g, 0), y = neg(g, neg(g, x));
  g.merge(x, y);  // - - x = x
  g.rebuild();
  CHECK(g.find(neg(g, neg(g, neg(g, neg(g, y))))) == g.find(x));
  CHECK(g.at(x).nodes[0].op == eop(Op::Param));  // the oldest comes first
}

TEST_CASE("facts: shape, dtype, and whether it is made of weights alone") {
  EGraph g;
  const ClassId x = leaf(g, 0), w = weight(g, 1, "w", {constant(3), constant(4)}),
                v = weight(g, 2, "v", {constant(5), constant(3)});
  const ClassId y = contract(g, x, w), product = matrix_product(g, v, w);
  CHECK(g.facts(y).shape == Shape{constant(3)});
  CHECK(!g.facts(y).is_constant);
  CHECK(g.facts(product).shape == Shape{constant(5), constant(4)});
  CHECK(g.facts(product).is_constant);
  // A value learns that it is constant, and so do those above it.
  const ClassId hidden = g.add({eop(Op::Param), DType::F32, {.i = 3}, g.facts(w).shape, {}});
  const ClassId above = matrix_product(g, v, hidden);
  CHECK(!g.facts(above).is_constant);
  g.merge(hidden, w);
  g.rebuild();
  CHECK(g.facts(above).is_constant);
}

TEST_CASE("a pattern finds every way in which a class is computed") {
  EGraph g;
  const ClassId a = leaf(g, 0), b = leaf(g, 1), c = leaf(g, 2);
  const ClassId sum = plus(g, a, b), other = plus(g, neg(g, c), neg(g, c));
  g.merge(sum, other);
  g.rebuild();
  const Pat x = any(0), y = any(1);
  CHECK(search(g, {op(Op::Add, {x, y})}).size() == 2);
  CHECK(search(g, {op(Op::Add, {x, x})}).size() == 1);  // one variable, one class
  const auto found = search(g, {op(Op::Add, {op(Op::Neg, {x}).as(0), y})});
  REQUIRE(found.size() == 1);
  CHECK(found[0][x] == c);
  CHECK(found[0].root(0) == g.find(sum));
  CHECK(found[0].node(0).op == eop(Op::Neg));
  // Patterns together share their variables: -c beside a sum of it.
  CHECK(search(g, {op(Op::Neg, {x}).as(0), op(Op::Add, {y, y})}).size() == 1);
}

TEST_CASE("saturation stops when nothing is learned, and at its limits") {
  const Pat x = any(0), y = any(1);
  const Rule turn{
      "turn", {op(Op::Add, {x, y})}, [&](EGraph& g, const Match& m) { return std::vector{plus(g, m[y], m[x])}; }};
  EGraph g;
  plus(g, plus(g, leaf(g, 0), leaf(g, 1)), leaf(g, 2));
  const Report report = saturate(g, {turn});
  CHECK(report.why == Stopped::Saturated);
  CHECK(report.fired.at("turn") == 2);
  CHECK(g.node_count() == 7);

  const Rule grow{"grow", {op(Op::Neg, {x})}, [&](EGraph& g, const Match& m) {
                    return std::vector{plus(g, neg(g, plus(g, m[x], m.root(0))), m[x])};
                  }};
  EGraph endless;
  neg(endless, leaf(endless, 0));
  CHECK(saturate(endless, {grow}, {.rounds = 3, .nodes = 1000}).why == Stopped::Rounds);
  CHECK(saturate(endless, {grow}, {.rounds = 1000, .nodes = 500}).why == Stopped::Nodes);
  CHECK(endless.node_count() < 510);
}
