#include <algorithm>
#include <functional>
#include <unordered_set>

#include "base/ensure.h"
#include "codegen/opt.h"
#include "codegen/passes.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr size_t kChains = 4;  // additions in flight: latency over throughput of an fma
// Sums of bytes are short; those of neighbouring blocks overlap.
constexpr size_t kDotChains = 1;

// Calls f with every choice of values for the ranges, the last one fastest.
void for_each_choice(const Refs& ranges, const std::function<void(const Replacements&)>& f) {
  Replacements choice;
  const std::function<void(size_t)> visit = [&](size_t i) {
    if (i == ranges.size()) return f(choice);
    for (int64_t v = 0; v < ranges[i]->src[0]->arg.i; ++v) {
      choice[ranges[i]] = constant(v);
      visit(i + 1);
    }
  };
  visit(0);
}

struct Split {
  Refs values, loops, lanes, copies;
};

Split split_sources(Ref node, size_t first) {
  Split s;
  for (size_t i = 0; i < node->src.size(); ++i) {
    const Ref x = node->src[i];
    if (i < first || x->op != Op::Range)
      s.values.push_back(x);
    else if (is_copies(x))
      s.copies.push_back(x);
    else if (kind_of(x) == RangeKind::Lane)
      s.lanes.push_back(x);
    else
      s.loops.push_back(x);
  }
  return s;
}

// x + y, where sums of products of bytes begin with what is added to them.
Ref add(Ref x, Ref y) {
  if (x->op == Op::Dot4 && y->op != Op::Dot4) std::swap(x, y);
  if (y->op == Op::Dot4) return with_sources(y, {add(y->src[0], x), y->src[1], y->src[2]});
  if (is_const(y, 0)) return x;
  if (is_const(x, 0)) return y;
  return binary(Op::Add, x, y);
}

// Differences of products are two sums, of multiply-adds each.
Ref combine(Op reduce, Ref x, Ref y) {
  if (reduce != Op::ReduceSum) return binary(Op::Max, x, y);
  if (is_float(x->dtype) && x->op == Op::Sub && y->op == Op::Sub)
    return binary(Op::Sub, binary(Op::Add, x->src[0], y->src[0]),
                  binary(Op::Add, x->src[1], y->src[1]));
  return x->dtype == DType::I32 ? add(x, y) : binary(Op::Add, x, y);
}

// An online softmax without a loop left: all terms are at hand.
Ref softmax_of_terms(const Refs& terms) {
  Ref top = terms[0];
  for (size_t i = 2; i < terms.size(); i += 2) top = binary(Op::Max, top, terms[i]);
  Ref total;
  for (size_t i = 0; i < terms.size(); i += 2) {
    const Ref weight =
        unary(Op::Exp2, (terms[i] - top) * constant_f(1.4426950408889634, top->dtype));
    const Ref term = weight * terms[i + 1];
    total = total ? total + term : term;
  }
  return total;
}

Ref expand_softmax(const Split& s, DType dtype) {
  Refs terms;
  for_each_choice(s.copies, [&](const Replacements& choice) {
    for (Ref v : s.values) terms.push_back(substitute(v, choice));
  });
  ENSURE(s.lanes.empty(), "lanes over an online softmax");
  if (s.loops.empty()) return softmax_of_terms(terms);
  terms.insert(terms.end(), s.loops.begin(), s.loops.end());
  return make(Op::SoftmaxSum, dtype, std::move(terms));
}

// Loads of weights, which differ from lane to lane, that the range's values need together, over those that each needs
// by itself: 1 if they have none in common, less if some.
double loads_changed(Ref term, Ref range) {
  std::unordered_set<const Node*> all;
  size_t each = 0;
  for (int64_t v = 0; v < range->src[0]->arg.i; ++v)
    for (Ref n : toposort(substitute(term, {{range, constant(v)}})))
      if (n->op == Op::Load && varies_in_lanes(n)) all.insert(n.get()), ++each;
  return each == 0 ? 1 : static_cast<double>(all.size()) / static_cast<double>(each);
}

// Terms that read the same words come one after the other: words then leave the registers early.
Refs by_reuse(const Refs& ranges, Ref term) {
  std::vector<std::pair<double, Ref>> changed;
  for (Ref r : ranges) changed.emplace_back(loads_changed(term, r), r);
  std::stable_sort(changed.begin(), changed.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  Refs sorted;
  for (const auto& [loads, range] : changed) sorted.push_back(range);
  return sorted;
}

// All terms, as `most` chains of neighbours: an addition then need not wait for all before, while words are still read
// in their order.
Ref combined(Op op, const Refs& terms, size_t most) {
  const size_t chains = std::min(most, terms.size());
  Ref all;
  for (size_t c = 0; c < chains; ++c) {
    const size_t begin = c * terms.size() / chains, end = (c + 1) * terms.size() / chains;
    Ref chain = terms[begin];
    for (size_t i = begin + 1; i < end; ++i) chain = combine(op, chain, terms[i]);
    all = all ? combine(op, all, chain) : chain;
  }
  return all;
}

Ref expand_plain(Op op, const Split& s, DType dtype, size_t chains, bool reuse) {
  const Refs copies = reuse ? by_reuse(s.copies, s.values[0]) : s.copies;
  Refs terms;
  for_each_choice(copies, [&](const Replacements& choice) {
    terms.push_back(substitute(s.values[0], choice));
  });
  const Ref term = combined(op, terms, terms[0]->op == Op::Dot4 ? kDotChains : chains);
  Ref result = term;
  if (!s.loops.empty()) {
    Refs src{term};
    src.insert(src.end(), s.loops.begin(), s.loops.end());
    result = make(op, dtype, std::move(src));
  }
  for (Ref lane : s.lanes)
    result = make(Op::LaneReduce, dtype, {result, lane}, {.i = static_cast<int64_t>(op)});
  return result;
}

Ref expand_reduction(Ref n, size_t chains, bool reuse) {
  const Split s = split_sources(n, 1);
  if (s.copies.empty() && s.lanes.empty()) return n;
  if (n->op == Op::SoftmaxSum) return expand_softmax(s, n->dtype);
  ENSURE(n->op != Op::TopK, "topk takes one element at a time");
  return expand_plain(n->op, s, n->dtype, chains, reuse);
}

bool is_lane_sum(Ref n) {
  return n->op == Op::LaneReduce && n->arg.i == static_cast<int64_t>(Op::ReduceSum);
}

// sum(x; lanes) + sum(y; lanes) -> sum(x + y; lanes): lanes are combined once.
Ref join_lane_sums(Ref n) {
  if (n->op != Op::Add || !is_float(n->dtype)) return n;
  const Ref x = n->src[0], y = n->src[1];
  if (!is_lane_sum(x) || !is_lane_sum(y) || x->src[1]->src[0] != y->src[1]->src[0]) return n;
  const Ref other = substitute(y->src[0], {{y->src[1], x->src[1]}});
  return with_sources(x, {binary(Op::Add, x->src[0], other), x->src[1]});
}

}  // namespace

Refs expand(const Refs& stores) {
  Refs out;
  for (Ref store : stores) {
    // Copies are chains already, and go well together only if all take their terms in one order.
    size_t copies = 1;
    for (Ref r : split_sources(store, 3).copies) copies *= static_cast<size_t>(r->src[0]->arg.i);
    const size_t chains = std::max<size_t>(1, kChains / copies);
    const Ref expanded = rebuild(store, [&](Ref, Ref n) {
      if (n->op == Op::Add && n->dtype == DType::I32) return add(n->src[0], n->src[1]);
      return is_reduce(n->op) ? expand_reduction(n, chains, copies > 1) : join_lane_sums(n);
    });
    const Split s = split_sources(expanded, 3);
    for_each_choice(s.copies, [&](const Replacements& choice) {
      Refs src;
      for (Ref v : s.values) src.push_back(substitute(v, choice));
      src.insert(src.end(), s.loops.begin(), s.loops.end());
      src.insert(src.end(), s.lanes.begin(), s.lanes.end());
      out.push_back(make(Op::Store, DType::Void, std::move(src)));
    });
  }
  return out;
}

}  // namespace smelt
