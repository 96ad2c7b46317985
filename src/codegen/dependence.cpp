#include "codegen/dependence.h"

#include <algorithm>
#include <set>

#include "graph/views.h"

namespace smelt {
namespace {

void add_dependence(Ref n, bool is_index, std::set<std::pair<const Node*, bool>>& seen, Dependence& d) {
  if (!seen.insert({n.get(), is_index}).second) return;
  if (n->op == Op::Range) {
    Refs& ranges = is_index ? d.jumps : d.direct;
    if (!contains(ranges, n)) ranges.push_back(n);
    return;
  }
  if (n->op != Op::Load) {
    for (Ref s : n->src) add_dependence(s, is_index, seen, d);
    return;
  }
  // The loads in an offset are indices.
  const auto in_offset = [&](const auto& self, Ref x) -> void {
    if (x->op == Op::Load) {
      if (!contains(d.indices, x)) d.indices.push_back(x);
      return add_dependence(LoadView(x).offset, true, seen, d);
    }
    if (x->op == Op::Range) return add_dependence(x, is_index, seen, d);
    for (Ref s : x->src) self(self, s);
  };
  in_offset(in_offset, LoadView(n).offset);
}

}  // namespace

Dependence dependence_of(Ref value) {
  Dependence d;
  std::set<std::pair<const Node*, bool>> seen;
  add_dependence(value, false, seen, d);
  return d;
}

}  // namespace smelt
