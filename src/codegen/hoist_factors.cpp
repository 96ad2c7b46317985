#include <algorithm>

#include "codegen/opt.h"
#include "codegen/passes.h"
#include "codegen/sum_order.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

bool depends_on_any(Ref expr, const Refs& ranges) {
  const Refs mine = ranges_of(expr);
  return std::any_of(ranges.begin(), ranges.end(), [&](Ref r) { return contains(mine, r); });
}

void collect_factors(Ref product, Refs& out) {
  if (product->op != Op::Mul) {
    out.push_back(product);
    return;
  }
  collect_factors(BinaryView(product).x, out);
  collect_factors(BinaryView(product).y, out);
}

Ref multiply(const Refs& factors) {
  Ref product = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) product = product * factors[i];
  return product;
}

bool has_partials(const Refs& ranges) { return std::any_of(ranges.begin(), ranges.end(), is_partial); }

// A sum of sums with nothing between them is one sum, unless both have partial sums: each combines its own, in its
// order. These are combined last.
Ref sum_over(Ref term, const Refs& ranges) {
  const bool is_sum = term->op == Op::ReduceSum && !(has_partials(ranges) && has_partials(own_ranges(term)));
  Refs all = ranges;
  if (is_sum) all.insert(all.end(), ReduceView(term).ranges.begin(), ReduceView(term).ranges.end());
  std::stable_partition(all.begin(), all.end(), [](Ref r) { return !is_partial(r); });
  return make_reduce(Op::ReduceSum, term->dtype, {is_sum ? ReduceView(term).values[0] : term}, all);
}

class FactorHoist {
 public:
  Ref hoist(Ref reduce) {
    Refs partials, loops;
    for (Ref r : own_ranges(reduce)) (is_partial(r) ? partials : loops).push_back(r);
    Ref body = ReduceView(reduce).values[0];
    Refs pending;
    while (!loops.empty()) {
      pending.insert(pending.begin(), loops.back());
      loops.pop_back();
      if (may_be_empty(pending)) continue;
      if (const Ref pulled = pull(body, pending); pulled) {
        body = pulled;
        pending.clear();
      }
    }
    // Partial sums are combined last, so they belong to the outermost sum.
    pending.insert(pending.end(), partials.begin(), partials.end());
    return pending.empty() ? body : sum_over(body, pending);
  }

 private:
  // sum(body; inner) with the invariant factors outside, or nothing if there are none.
  Ref pull(Ref body, const Refs& inner) {
    Refs factors;
    collect_factors(body, factors);
    if (has_invariant(factors, inner)) return pull_product(factors, inner);
    for (size_t i = 0; i < factors.size(); ++i) {
      const Ref f = factors[i];
      if (f->op != Op::Add && f->op != Op::Sub) continue;
      Refs left = factors, right = factors;
      replace_factor(left, i, BinaryView(f).x);
      replace_factor(right, i, BinaryView(f).y);
      if (!has_invariant(left, inner) && !has_invariant(right, inner)) continue;
      return binary(f->op, pull_product(left, inner), pull_product(right, inner));
    }
    return Ref();
  }

  static void replace_factor(Refs& factors, size_t i, Ref by) {
    factors.erase(factors.begin() + i);
    collect_factors(by, factors);
  }

  // A sum of no terms is zero, also where its factors are no numbers: memory on chip that the terms would have filled.
  static bool may_be_empty(const Refs& ranges) {
    return std::any_of(ranges.begin(), ranges.end(), [](Ref r) { return RangeView(r).size->min <= 0; });
  }

  bool has_invariant(const Refs& factors, const Refs& inner) const {
    return std::any_of(factors.begin(), factors.end(), [&](Ref f) { return is_worth_pulling(f, inner); });
  }

  bool is_worth_pulling(Ref factor, const Refs& inner) const {
    return !is_const(factor) && !depends_on_any(factor, inner);
  }

  Ref pull_product(const Refs& factors, const Refs& inner) const {
    Refs outside, inside;
    for (Ref f : factors) (depends_on_any(f, inner) ? inside : outside).push_back(f);
    if (inside.empty()) inside.push_back(constant_f(1, factors[0]->dtype));
    const Ref sum = sum_over(multiply(inside), inner);
    return outside.empty() ? sum : multiply(outside) * sum;
  }
};

}  // namespace

Refs hoist_factors(const Refs& stores) {
  Refs out;
  FactorHoist pass;
  for (Ref s : stores) out.push_back(rebuild(s, [&](Ref, Ref n) { return has_order(n) ? pass.hoist(n) : n; }));
  return out;
}

}  // namespace smelt
