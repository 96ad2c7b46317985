#include <algorithm>

#include "codegen/opt.h"
#include "codegen/passes.h"
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
  collect_factors(product->src[0], out);
  collect_factors(product->src[1], out);
}

Ref multiply(const Refs& factors) {
  Ref product = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) product = product * factors[i];
  return product;
}

// A sum of sums with nothing between them is one sum.
Ref sum_over(Ref term, const Refs& ranges) {
  const bool is_sum = term->op == Op::ReduceSum;
  Refs src{is_sum ? term->src[0] : term};
  src.insert(src.end(), ranges.begin(), ranges.end());
  if (is_sum) src.insert(src.end(), term->src.begin() + 1, term->src.end());
  return make(Op::ReduceSum, term->dtype, std::move(src));
}

class FactorHoist {
 public:
  explicit FactorHoist(Ref store) {
    for (size_t i = 3; i < store->src.size(); ++i)
      if (is_copies(store->src[i])) copies_.push_back(store->src[i]);
  }

  Ref hoist(Ref reduce) {
    Refs lanes, loops;
    for (size_t i = 1; i < reduce->src.size(); ++i)
      (kind_of(reduce->src[i]) == RangeKind::Lane ? lanes : loops).push_back(reduce->src[i]);
    Ref body = reduce->src[0];
    Refs pending;
    while (!loops.empty()) {
      pending.insert(pending.begin(), loops.back());
      loops.pop_back();
      if (const Ref pulled = pull(body, pending); pulled) {
        body = pulled;
        pending.clear();
      }
    }
    // Lanes are combined last, so they belong to the outermost sum.
    pending.insert(pending.end(), lanes.begin(), lanes.end());
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
      replace_factor(left, i, f->src[0]);
      replace_factor(right, i, f->src[1]);
      if (!has_invariant(left, inner) && !has_invariant(right, inner)) continue;
      return binary(f->op, pull_product(left, inner), pull_product(right, inner));
    }
    return Ref();
  }

  static void replace_factor(Refs& factors, size_t i, Ref by) {
    factors.erase(factors.begin() + i);
    collect_factors(by, factors);
  }

  bool has_invariant(const Refs& factors, const Refs& inner) const {
    return std::any_of(factors.begin(), factors.end(),
                       [&](Ref f) { return is_worth_pulling(f, inner); });
  }

  // Copies made by UPCAST share what does not depend on them: a factor that is common to all of them is cheaper applied
  // to the weights once than to every copy's sum.
  bool is_worth_pulling(Ref factor, const Refs& inner) const {
    if (is_const(factor) || depends_on_any(factor, inner)) return false;
    return copies_.empty() || depends_on_any(factor, copies_);
  }

  Ref pull_product(const Refs& factors, const Refs& inner) const {
    Refs outside, inside;
    for (Ref f : factors) (depends_on_any(f, inner) ? inside : outside).push_back(f);
    if (inside.empty()) inside.push_back(constant_f(1, factors[0]->dtype));
    const Ref sum = sum_over(multiply(inside), inner);
    return outside.empty() ? sum : multiply(outside) * sum;
  }

  Refs copies_;
};

}  // namespace

Refs hoist_factors(const Refs& stores) {
  Refs out;
  for (Ref s : stores) {
    FactorHoist pass(s);
    out.push_back(rebuild(s, [&](Ref, Ref n) {
      return n->op == Op::ReduceSum && is_float(n->dtype) ? pass.hoist(n) : n;
    }));
  }
  return out;
}

}  // namespace smelt
