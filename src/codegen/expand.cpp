#include <algorithm>
#include <functional>
#include <unordered_set>

#include "base/ensure.h"
#include "codegen/opt.h"
#include "codegen/passes.h"
#include "codegen/sum_order.h"
#include "codegen/term_of_sum.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

// Calls f with every choice of values for the ranges, the last one fastest.
void for_each_choice(const Refs& ranges, const std::function<void(const Replacements&)>& f) {
  Replacements choice;
  const std::function<void(size_t)> visit = [&](size_t i) {
    if (i == ranges.size()) return f(choice);
    for (int64_t v = 0; v < RangeView(ranges[i]).count(); ++v) {
      choice[ranges[i]] = constant(v);
      visit(i + 1);
    }
  };
  visit(0);
}

// The ranges of a store or a reduction by what becomes of them.
struct Ranges {
  Refs loops, lanes, copies, partials;
};

Ranges sorted_ranges(Ref node) {
  Ranges by;
  for (Ref r : own_ranges(node)) {
    if (is_copies(r))
      by.copies.push_back(r);
    else if (kind_of(r) == RangeKind::Lane)
      by.lanes.push_back(r);
    else if (is_partial(r))
      by.partials.push_back(r);
    else
      by.loops.push_back(r);
  }
  return by;
}

// x + y, where sums of products of bytes begin with what is added to them.
Ref add(Ref x, Ref y) {
  if (x->op == Op::Dot4 && y->op != Op::Dot4) std::swap(x, y);
  if (y->op == Op::Dot4) return with_sources(y, {add(Dot4View(y).sum, x), Dot4View(y).x, Dot4View(y).y});
  if (is_const(y, 0)) return x;
  if (is_const(x, 0)) return y;
  return binary(Op::Add, x, y);
}

Ref combine(Op reduce, Ref x, Ref y) {
  if (reduce != Op::ReduceSum) return binary(Op::Max, x, y);
  return x->dtype == DType::I32 ? add(x, y) : binary(Op::Add, x, y);
}

// Distinct loads of weights (those that differ from lane to lane) of all iterations of a range, over the sum of what
// each iteration loads: 1 if iterations share none, less if they share some.
double loads_changed(Ref term, Ref range) {
  std::unordered_set<const Node*> all;
  size_t each = 0;
  for (int64_t v = 0; v < RangeView(range).count(); ++v)
    for (Ref n : toposort(substitute(term, {{range, constant(v)}})))
      if (n->op == Op::Load && varies_in_lanes(n)) all.insert(n.get()), ++each;
  return each == 0 ? 1 : static_cast<double>(all.size()) / static_cast<double>(each);
}

// Terms that read the same words come one after the other, so that words have short live ranges.
Refs by_reuse(const Refs& ranges, Ref term) {
  std::vector<std::pair<double, Ref>> changed;
  for (Ref r : ranges) changed.emplace_back(loads_changed(term, r), r);
  std::stable_sort(changed.begin(), changed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Refs sorted;
  for (const auto& [loads, range] : changed) sorted.push_back(range);
  return sorted;
}

// All terms combined. A maximum has several chains of neighbouring terms, which hides the latency of an operation while
// words are still read in their order. A sum of bytes is short and overlaps with those of neighbouring blocks: one
// chain.
Ref in_chains(Op op, const Refs& terms, int64_t most) {
  const size_t chains = op == Op::ReduceMax ? std::min(static_cast<size_t>(most), terms.size()) : 1;
  Ref all;
  for (size_t c = 0; c < chains; ++c) {
    const size_t begin = c * terms.size() / chains, end = (c + 1) * terms.size() / chains;
    Ref chain = terms[begin];
    for (size_t i = begin + 1; i < end; ++i) chain = combine(op, chain, terms[i]);
    all = all ? combine(op, all, chain) : chain;
  }
  return all;
}

// One after the other, as a loop adds them.
Ref in_order(const Refs& terms) {
  Ref sum = closed(terms[0]);
  for (size_t i = 1; i < terms.size(); ++i) sum = added_to(sum, terms[i]);
  return sum;
}

// The first with the one behind half of them, and so on. An odd factor goes first: 12 are 3 times 4.
Ref by_halves(Op op, Refs parts) {
  const size_t even = parts.size() & -parts.size();
  for (size_t i = even; i < parts.size(); ++i) parts[i % even] = combine(op, parts[i % even], parts[i]);
  parts.resize(even);
  while (parts.size() > 1) {
    const size_t half = parts.size() / 2;
    for (size_t i = 0; i < half; ++i) parts[i] = combine(op, parts[i], parts[half + i]);
    parts.resize(half);
  }
  return parts[0];
}

// The loops that are left of a reduction. A float sum then has several terms, which are added one after the other.
Ref in_loops(Ref reduce, const Refs& terms, const Refs& loops, int64_t chains) {
  if (loops.empty()) return has_order(reduce) ? in_order(terms) : in_chains(reduce->op, terms, chains);
  const Refs left = has_order(reduce) ? terms : Refs{in_chains(reduce->op, terms, chains)};
  return make_reduce(reduce->op, reduce->dtype, left, loops);
}

// `reuse`: integers may be added in the order that shortens the live ranges of words.
Ref expand_reduction(Ref n, bool reuse, int64_t chains) {
  const Ranges s = sorted_ranges(n);
  if (s.copies.empty() && s.lanes.empty() && s.partials.empty()) return n;
  ENSURE(n->op == Op::ReduceSum || n->op == Op::ReduceMax, "this reduction takes one element at a time");
  const Ref term = ReduceView(n).values[0];
  const Refs copies = reuse && !has_order(n) ? by_reuse(s.copies, term) : s.copies;
  Refs parts;
  for_each_choice(s.partials, [&](const Replacements& part) {
    const Ref value = substitute(term, part);
    Refs terms;
    for_each_choice(copies, [&](const Replacements& choice) { terms.push_back(substitute(value, choice)); });
    parts.push_back(in_loops(n, terms, s.loops, chains));
  });
  Ref result = by_halves(n->op, std::move(parts));
  for (Ref lanes : s.lanes) result = make_lane_reduce(n->op, result, lanes);
  return result;
}

}  // namespace

Refs expand(const Refs& stores, const Machine& machine) {
  Refs out;
  for (Ref store : stores) {
    const bool has_copies = !sorted_ranges(store).copies.empty();
    const Ref expanded = rebuild(store, [&](Ref, Ref n) {
      if (n->op == Op::Add && n->dtype == DType::I32) return add(BinaryView(n).x, BinaryView(n).y);
      return is_reduce(n->op) ? expand_reduction(n, has_copies, machine.chains) : n;
    });
    const StoreView s(expanded);
    const Ranges ranges = sorted_ranges(expanded);
    Refs left = ranges.loops;
    left.insert(left.end(), ranges.lanes.begin(), ranges.lanes.end());
    for_each_choice(ranges.copies, [&](const Replacements& choice) {
      out.push_back(make_store(s.buffer, substitute(s.offset, choice), substitute(s.value, choice), left));
    });
  }
  return out;
}

}  // namespace smelt
