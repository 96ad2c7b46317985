#include "codegen/opt_choice.h"

#include <algorithm>

#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"

namespace smelt {

Walk walk(const Refs& roots, Ref range, int64_t piece) {
  Walk w;
  for (Ref root : roots)
    for (Ref n : toposort(root)) {
      if (n->op != Op::Load || !depends_on(LoadView(n).offset, range)) continue;
      const auto step = stride(LoadView(n).offset, range);
      const bool is_byte = size_of(n->dtype) == 1,
                 near = step == size_of(n->dtype) || (is_byte && (step == 4 || step == piece));
      (near ? w.neighbours : w.scattered)++;
    }
  return w;
}

Refs reductions_of(const Refs& stores) {
  Refs found;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (is_reduce(n->op) && !contains(found, n)) found.push_back(n);
  return found;
}

bool holds_reduction(Ref reduce) {
  for (Ref s : reduce->src)
    for (Ref n : toposort(s))
      if (is_reduce(n->op)) return true;
  return false;
}

bool OptChoice::try_opt(Opt opt) {
  OptResult result = smelt::try_opt(stores, opt, lane_rules(machine));
  if (observe) observe(opt, result.why_not);
  if (!result) return false;
  stores = std::move(result.stores);
  opts.push_back(opt);
  return true;
}

RangeId OptChoice::id_of(Ref range) const { return smelt::id_of(stores, range); }

Refs OptChoice::output_axes() const {
  Refs out;
  for (Ref r : axes_of(stores))
    if (is_output_axis(stores, r)) out.push_back(r);
  return out;
}

Ref left_of(const OptChoice& c, Ref axis) {
  for (Ref r : c.output_axes())
    if (kind_of(r) == RangeKind::Loop && RangeView(r).number == outer_part(RangeView(axis).number)) return r;
  return Ref();
}

bool take_part(OptChoice& c, OptKind kind, Ref& axis, int64_t n) {
  if (!axis || !c.try_opt({kind, c.id_of(axis), n})) return false;
  axis = left_of(c, axis);
  return true;
}

AxisParts split_axis(OptChoice& c, Ref axis, int64_t n) {
  const int64_t number = RangeView(axis).number;
  AxisParts parts;
  if (!c.try_opt({OptKind::Split, c.id_of(axis), n})) return parts;
  for (Ref r : c.output_axes()) {
    if (RangeView(r).number == inner_part(number)) parts.inner = r;
    if (RangeView(r).number == outer_part(number)) parts.outer = r;
  }
  return parts;
}

bool take_copies_apart(OptChoice& c, Ref axis, int64_t n) {
  const auto size = const_int(RangeView(axis).size);
  if (!size || *size % n != 0) return false;
  if (*size == n) return c.try_opt({OptKind::Upcast, c.id_of(axis), n});
  const OptChoice before = c;
  const AxisParts parts = split_axis(c, axis, *size / n);
  if (parts.outer && c.try_opt({OptKind::Upcast, c.id_of(parts.outer), n})) return true;
  c.stores = before.stores, c.opts = before.opts;
  return false;
}

int64_t OptChoice::blocks_left() const {
  int64_t blocks = 1;
  for (Ref r : output_axes())
    if (kind_of(r) == RangeKind::Loop) blocks *= const_int(RangeView(r).size).value_or(0);
  return blocks;
}

int64_t OptChoice::lanes_for(Ref range) const {
  for (int64_t w = machine.has_threads() ? machine.warp_threads : machine.lanes(); w >= 4; w /= 2)
    if (known_divisor(RangeView(range).size) % w == 0) return w;
  return 0;
}

bool OptChoice::is_part_of_tile() const {
  const Refs axes = axes_of(stores);
  return std::any_of(axes.begin(), axes.end(), [](Ref r) { return kind_of(r) == RangeKind::Tile; });
}

Refs loads_of_bytes(const Refs& stores) {
  Refs loads;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (n->op == Op::Load && size_of(n->dtype) == 1) loads.push_back(n);
  return loads;
}

Ref pairs_of_rows(const OptChoice& c) {
  const Refs loads = loads_of_bytes(c.stores);
  for (Ref axis : c.output_axes())
    if (kind_of(axis) == RangeKind::Loop && is_const(RangeView(axis).size, 2))
      for (Ref load : loads)
        if (stride(LoadView(load).offset, axis) == kBytesOfWord) return axis;
  return Ref();
}

}  // namespace smelt
