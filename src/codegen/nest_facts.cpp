#include "codegen/nest_facts.h"

#include <algorithm>

namespace smelt {
namespace {

// What a node runs over: values outside of it do not depend on that.
Refs bound_ranges(Ref n) {
  if (n->op == Op::LaneReduce) return {LaneReduceView(n).lanes};
  return is_reduce(n->op) ? own_ranges(n) : Refs{};
}

}  // namespace

const RangeSet& NestFacts::free_ranges(Ref n) {
  if (auto it = free_.find(n.get()); it != free_.end()) return it->second;
  RangeSet set;
  for (Ref s : n->src) {
    const RangeSet& inner = free_ranges(s);
    set.insert(inner.begin(), inner.end());
  }
  if (n->op == Op::Range) set.insert(n.get());
  for (Ref r : bound_ranges(n)) set.erase(r.get());
  return free_[n.get()] = std::move(set);
}

int NestFacts::lanes(Ref n) {
  if (auto it = lanes_.find(n.get()); it != lanes_.end()) return it->second;
  int count = 1;
  if (n->op == Op::Range)
    count = kind_of(n) == RangeKind::Lane && !is_of_threads(n) ? static_cast<int>(RangeView(n).count()) : 1;
  else if (n->op != Op::LaneReduce)
    for (Ref s : is_reduce(n->op) ? ReduceView(n).values : std::span(n->src)) count = std::max(count, lanes(s));
  return lanes_[n.get()] = count;
}

int NestFacts::height(Ref n) {
  if (auto it = height_.find(n.get()); it != height_.end()) return it->second;
  int h = 0;
  for (Ref s : n->src) h = std::max(h, height(s));
  return height_[n.get()] = h + is_reduce(n->op);
}

}  // namespace smelt
