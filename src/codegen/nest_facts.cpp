#include "codegen/nest_facts.h"

#include <algorithm>

namespace smelt {
namespace {

bool is_bound_by(Ref n, Ref range) {
  return n->op == Op::LaneReduce ? kind_of(range) == RangeKind::Lane && n->src[1] == range
                                 : kind_of(range) == RangeKind::Reduce;
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
  if (is_reduce(n->op) || n->op == Op::LaneReduce)
    for (Ref s : n->src)
      if (s->op == Op::Range && is_bound_by(n, s)) set.erase(s.get());
  return free_[n.get()] = std::move(set);
}

int NestFacts::lanes(Ref n) {
  if (auto it = lanes_.find(n.get()); it != lanes_.end()) return it->second;
  int count = 1;
  if (n->op == Op::Range)
    count = kind_of(n) == RangeKind::Lane ? static_cast<int>(n->src[0]->arg.i) : 1;
  else if (n->op != Op::LaneReduce)
    for (Ref s : n->src)
      if (!(is_reduce(n->op) && s->op == Op::Range)) count = std::max(count, lanes(s));
  return lanes_[n.get()] = count;
}

int NestFacts::height(Ref n) {
  if (auto it = height_.find(n.get()); it != height_.end()) return it->second;
  int h = 0;
  for (Ref s : n->src) h = std::max(h, height(s));
  return height_[n.get()] = h + is_reduce(n->op);
}

Refs bound_ranges(Ref reduce) {
  Refs ranges;
  for (Ref s : reduce->src)
    if (s->op == Op::Range && kind_of(s) == RangeKind::Reduce) ranges.push_back(s);
  return ranges;
}

Refs terms_of(Ref reduce) {
  Refs terms;
  for (Ref s : reduce->src)
    if (!(s->op == Op::Range && kind_of(s) == RangeKind::Reduce)) terms.push_back(s);
  return terms;
}

}  // namespace smelt
