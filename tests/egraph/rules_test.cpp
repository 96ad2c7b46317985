// Every rule against the interpreter: what it says is equal is equal, on random inputs.
#include "egraph/rules.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "egraph/programs.h"
#include "egraph/terms.h"

using namespace smelt;
using namespace smelt::egraph;
using smelt::test::Programs;

namespace {

using Build = std::function<ClassId(Programs&)>;

Shape dims(std::initializer_list<int64_t> sizes) {
  Shape shape;
  for (int64_t n : sizes) shape.push_back(constant(n));
  return shape;
}

// Where a rule applies. Names may occur more than once.
const std::vector<std::pair<std::string, Build>>& examples() {
  static const std::vector<std::pair<std::string, Build>> list{
      {"side-by-side",
       [](Programs& p) {
         const ClassId x = p.input({2, 6});
         return concat(p.g,
                       {contract(p.g, x, p.weight({3, 6})), contract(p.g, x, p.weight({5, 6})),
                        contract(p.g, x, p.weight({4, 6}))},
                       1);
       }},
      {"side-by-side",  // of each head
       [](Programs& p) {
         const ClassId x = p.input({2, 3, 6});
         return concat(p.g, {contract(p.g, x, p.weight({3, 4, 6})), contract(p.g, x, p.weight({3, 5, 6}))}, 2);
       }},
      {"side-by-side",  // of chosen experts
       [](Programs& p) {
         const ClassId x = p.input({2, 1, 6}), i = p.indices({2, 3}, 5);
         return concat(p.g,
                       {contract(p.g, x, gather(p.g, p.weight({5, 4, 6}), i)),
                        contract(p.g, x, gather(p.g, p.weight({5, 2, 6}), i))},
                       2);
       }},
      {"stacked",
       [](Programs& p) {
         const ClassId w = p.weight({4, 6});
         return concat(p.g, {contract(p.g, p.input({2, 6}), w), contract(p.g, p.input({3, 6}), w)}, 0);
       }},
      {"fold",
       [](Programs& p) {
         const ClassId inner = contract(p.g, p.input({2, 6}), p.weight({4, 6}));
         return contract(p.g, inner, p.weight({5, 4}));
       }},
      {"fold",  // of each head, from one input
       [](Programs& p) {
         const ClassId inner = contract(p.g, p.input({2, 1, 6}), p.weight({3, 4, 6}));
         return contract(p.g, inner, p.weight({3, 5, 4}));
       }},
      {"fold",  // one matrix after those of the heads
       [](Programs& p) {
         const ClassId inner = contract(p.g, p.input({2, 3, 6}), p.weight({3, 4, 6}));
         return contract(p.g, inner, p.weight({5, 4}));
       }},
      {"unfold",
       [](Programs& p) {
         return contract(p.g, p.input({2, 6}), matrix_product(p.g, p.weight({5, 4}), p.weight({4, 6})));
       }},
      {"unfold",
       [](Programs& p) {
         return contract(p.g, p.input({2, 3, 6}), matrix_product(p.g, p.weight({3, 5, 4}), p.weight({3, 4, 6})));
       }},
      {"unfold",  // attention scores against keys made from latents: absorption
       [](Programs& p) {
         const ClassId keys = contract(p.g, p.input({1, 1, 7, 4}), p.weight({3, 1, 6, 4}));
         return contract(p.g, p.input({2, 3, 6}), keys);
       }},
      {"sum-then-multiply",  // values of each position from its latent
       [](Programs& p) {
         const ClassId values = contract(p.g, p.input({1, 1, 7, 4}), p.weight({3, 1, 5, 4}));
         const ClassId scores = expand(p.g, p.input({1, 3, 7, 1}), dims({1, 3, 7, 5}));
         return softmax_sum(p.g, scores, values, 2);
       }},
      {"repeated-sum-then-multiply",  // one matrix for all, more tokens than contexts
       [](Programs& p) {
         const ClassId values = contract(p.g, p.input({1, 7, 4}), p.weight({5, 4}));
         const ClassId scores = expand(p.g, p.input({2, 7, 1}), dims({2, 7, 5}));
         return softmax_sum(p.g, scores, expand(p.g, values, dims({2, 7, 5})), 1);
       }},
      {"slice-of-rows",
       [](Programs& p) {
         const ClassId y = contract(p.g, p.input({2, 3, 6}), p.weight({3, 8, 6}));
         return shrink(p.g, y, 2, 2, constant(5));
       }},
      {"split-of-rows",
       [](Programs& p) { return reshape(p.g, contract(p.g, p.input({2, 6}), p.weight({12, 6})), dims({2, 3, 4})); }},
      {"split-of-rows",
       [](Programs& p) {
         const ClassId y = contract(p.g, p.input({2, 3, 6}), p.weight({3, 10, 6}));
         return reshape(p.g, y, dims({2, 3, 5, 2}));
       }},
      {"split-of-sum",
       [](Programs& p) { return contract(p.g, reshape(p.g, p.input({2, 3, 4}), dims({2, 12})), p.weight({5, 12})); }},
      {"joined-sum",
       [](Programs& p) { return reduce_sum(p.g, contract(p.g, p.input({2, 3, 4}), p.weight({3, 5, 4})), 1); }},
      {"choose-after",
       [](Programs& p) {
         const ClassId i = p.indices({2, 3}, 5);
         return contract(p.g, p.input({2, 1, 6}), gather(p.g, p.weight({5, 4, 6}), i));
       }},
      {"choose-before",
       [](Programs& p) {
         const ClassId all = contract(p.g, p.input({2, 1, 6}), p.weight({5, 4, 6}));
         return egraph::select(p.g, all, p.indices({2, 3}, 5));
       }},
      {"copy-first",
       [](Programs& p) {
         const ClassId i = p.indices({2, 3}, 5);
         return contract(p.g, p.input({2, 1, 6}), gather(p.g, p.weight({5, 4, 6}), i));
       }},
      {"read-in-place",
       [](Programs& p) {
         const ClassId i = p.indices({2, 3}, 5);
         return contract(p.g, p.input({2, 1, 6}), gathered_copy(p.g, p.weight({5, 4, 6}), i));
       }},
      {"concat-then-choose",
       [](Programs& p) {
         const ClassId i = p.indices({2, 3}, 5), a = p.weight({5, 4, 6}), b = p.weight({5, 2, 6}),
                       c = p.weight({5, 1, 6});
         return concat(p.g, {gather(p.g, a, i), gather(p.g, b, i), gather(p.g, c, i)}, 2);
       }},
      {"reshape-of-reshape",
       [](Programs& p) { return reshape(p.g, reshape(p.g, p.input({4, 6}), dims({8, 3})), dims({2, 12})); }},
      {"permute-of-permute",
       [](Programs& p) { return permute(p.g, permute(p.g, p.input({2, 3, 4}), {2, 0, 1}), {1, 0, 2}); }},
      {"slice-of-slice",
       [](Programs& p) { return shrink(p.g, shrink(p.g, p.input({4, 9}), 1, 2, constant(6)), 1, 1, constant(3)); }},
      {"slice-of-concat",
       [](Programs& p) {
         const ClassId all = concat(p.g, {p.input({2, 3}), p.input({2, 4}), p.input({2, 5})}, 1);
         return shrink(p.g, all, 1, 3, constant(4));
       }},
      {"slice-of-concat",  // two of three
       [](Programs& p) {
         const ClassId all = concat(p.g, {p.input({3, 2}), p.input({4, 2}), p.input({5, 2})}, 0);
         return shrink(p.g, all, 0, 3, constant(9));
       }},
      {"concat-of-slices",
       [](Programs& p) {
         const ClassId x = p.input({9, 2});
         return concat(p.g, {shrink(p.g, x, 0, 1, constant(3)), shrink(p.g, x, 0, 4, constant(4))}, 0);
       }},
  };
  return list;
}

const Rule& rule(const std::string& name) {
  static const std::vector<Rule> rules = all_rules();
  for (const Rule& r : rules)
    if (r.name == name) return r;
  FAIL(name);
  return rules[0];
}

}  // namespace

TEST_CASE("each rule alone: both sides have the same values") {
  std::set<std::string> tried;
  for (const auto& [name, build] : examples()) {
    CAPTURE(name);
    Programs p;
    const ClassId root = build(p);
    const Report report = saturate(p.g, {rule(name)}, {.rounds = 3});
    CHECK(report.fired.contains(name));
    CHECK(p.check_all(root) >= 3);
    tried.insert(name);
  }
  for (const Rule& r : all_rules()) CHECK_MESSAGE(tried.contains(r.name), r.name);
}

TEST_CASE("all rules together: every program of the graph has the same values") {
  for (const auto& [name, build] : examples()) {
    CAPTURE(name);
    Programs p(2);
    const ClassId root = build(p);
    CHECK(saturate(p.g, all_rules()).why == Stopped::Saturated);
    p.check_all(root);
  }
}

TEST_CASE("rules leave alone what they do not fit") {
  auto unchanged = [](const std::string& name, const Build& build) {
    CAPTURE(name);
    Programs p;
    build(p);
    const size_t before = p.g.node_count();
    saturate(p.g, {rule(name)});
    CHECK(p.g.node_count() == before);
  };
  unchanged("side-by-side", [](Programs& p) {  // two inputs
    return concat(
        p.g, {contract(p.g, p.input({2, 6}), p.weight({3, 6})), contract(p.g, p.input({2, 6}), p.weight({5, 6}))}, 1);
  });
  unchanged("fold", [](Programs& p) {  // something that is not linear lies between
    const ClassId inner = contract(p.g, p.input({2, 6}), p.weight({4, 6}));
    const ClassId root = p.g.add({eop(Op::Sqrt), DType::F32, {}, p.g.facts(inner).shape, {inner}});
    return contract(p.g, root, p.weight({5, 4}));
  });
  unchanged("fold", [](Programs& p) {  // made of weights: computed once in any case
    return contract(p.g, contract(p.g, p.weight({2, 6}), p.weight({4, 6})), p.weight({5, 4}));
  });
  unchanged("slice-of-rows", [](Programs& p) {  // tokens, not rows
    return shrink(p.g, contract(p.g, p.input({4, 6}), p.weight({3, 6})), 0, 1, constant(2));
  });
  unchanged("joined-sum", [](Programs& p) {  // the sum over tokens
    return reduce_sum(p.g, contract(p.g, p.input({2, 3, 4}), p.weight({3, 5, 4})), 0);
  });
  unchanged("concat-then-choose", [](Programs& p) {  // other indices
    const ClassId w = p.weight({5, 4, 6});
    return concat(p.g, {gather(p.g, w, p.indices({2, 3}, 5)), gather(p.g, w, p.indices({2, 3}, 5))}, 2);
  });
}
