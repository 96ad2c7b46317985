#include <algorithm>

#include "codegen/opt.h"
#include "codegen/passes.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

// `outer` and `inner` become one range. REQUIRES: every reduction has both or none.
Ref merge_pair(Ref store, Ref outer, Ref inner, Ref whole) {
  const auto merge = [&](Ref, Ref n) {
    if (!is_reduce(n->op)) return n;
    Refs ranges = own_ranges(n);
    std::erase(ranges, inner);
    std::replace(ranges.begin(), ranges.end(), outer, whole);
    return with_ranges(n, ranges);
  };
  const Ref size = RangeView(inner).size;
  return substitute(rebuild(store, merge), {{outer, whole / size}, {inner, whole % size}});
}

bool is_divided(const Refs& stores, Ref range, int64_t by) {
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if ((n->op == Op::Div || n->op == Op::Mod) && is_const(BinaryView(n).y, by) && depends_on(BinaryView(n).x, range))
        return true;
  return false;
}

// Two loops of the same reductions, one just inside of the other.
struct LoopPair {
  Ref outer, inner;
};

bool are_together(const Refs& stores, const LoopPair& pair) {
  const auto has = [](Ref n, Ref r) { return contains(ReduceView(n).ranges, r); };
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (is_reduce(n->op) && has(n, pair.outer) != has(n, pair.inner)) return false;
  return true;
}

std::vector<LoopPair> neighbours_of(const Refs& stores) {
  std::vector<LoopPair> pairs;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      const Refs ranges = is_reduce(n->op) ? own_ranges(n) : Refs{};
      for (size_t i = 0; i + 1 < ranges.size(); ++i) pairs.push_back({ranges[i], ranges[i + 1]});
    }
  return pairs;
}

}  // namespace

Refs merge_ranges(Refs stores) {
  for (bool again = true; again;) {
    again = false;
    for (const auto& [outer, inner] : neighbours_of(stores)) {
      const auto size = const_int(RangeView(inner).size);
      if (!size || !are_together(stores, {outer, inner})) continue;
      const Ref whole = with_size(outer, simplify(RangeView(outer).size * constant(*size)));
      Refs merged;
      for (Ref s : stores) merged.push_back(merge_pair(s, outer, inner, whole));
      if (is_divided(merged, whole, *size)) continue;
      stores = std::move(merged);
      again = true;
      break;
    }
  }
  return stores;
}

}  // namespace smelt
