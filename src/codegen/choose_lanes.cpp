// What goes side by side into a vector: neighbouring outputs, bytes of a word, terms of a sum.
#include <algorithm>

#include "codegen/opt_choice.h"
#include "codegen/packed_bytes.h"
#include "graph/rules_algebra.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

bool copies_neighbours(const OptChoice& c) {
  const Refs axes = c.output_axes();
  return !axes.empty() && c.lanes_for(axes.back()) > 0 && std::all_of(c.stores.begin(), c.stores.end(), [&](Ref s) {
    const StoreView store(s);
    return store.value->op == Op::Load && stride(store.offset, axes.back()) == size_of(store.value->dtype) &&
           walk({store.value}, axes.back()).neighbours == 1;
  });
}

bool rounds_numbers(const OptChoice& c) {
  return std::any_of(c.stores.begin(), c.stores.end(), [](Ref s) { return is_rounded(StoreView(s).value); });
}

// Whether words would leave threads of a warp without one, in a block of which there are few: it waits for each step.
bool has_few_to_round(const OptChoice& c) {
  int64_t tiles = 1;
  for (Ref r : tile_ranges(c.stores)) tiles *= std::max<int64_t>(RangeView(r).size->min, 1);
  return rounds_numbers(c) && outputs_left(c) < 4 * c.machine.warp_threads && tiles < 4 * c.machine.tasks;
}

template <class Is>
bool has_softmax(const OptChoice& c, Is is) {
  return std::any_of(c.stores.begin(), c.stores.end(), [&](Ref store) {
    const Refs nodes = toposort(store);
    return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) { return n->op == Op::SoftmaxSum && is(n); });
  });
}

}  // namespace

// Bytes side by side are stored by words. Lanes of vectors hold as many as they are, so there it is not for those that
// are only copied or rounded.
void choose_pack(OptChoice& c) {
  if (!c.machine.has_threads() && (copies_neighbours(c) || rounds_numbers(c))) return;
  if (c.machine.has_threads() && has_few_to_round(c)) return;
  for (Ref r : c.output_axes())
    if (kind_of(r) == RangeKind::Loop && c.try_opt({OptKind::Pack, c.id_of(r), 4})) return;
}

// Neighbouring outputs in lanes, when everything they read lies side by side too.
void choose_local(OptChoice& c) {
  const Refs axes = c.output_axes();
  if (axes.empty()) return;
  const Ref inner = axes.back();
  const Walk w = walk(c.stores, inner);
  const int64_t lanes = c.lanes_for(inner);
  if (w.scattered > 0 || lanes == 0) return;
  if (!c.try_opt({OptKind::Local, c.id_of(inner), lanes})) return;
  c.has_local = true;
  // The columns of an online softmax stay in registers, so that scores are computed once; where those are at hand, as
  // when chunks are combined, some columns share what is made of them.
  const Refs rest = c.output_axes();
  if (rest.size() < 2) return;
  const Ref outer = rest[rest.size() - 2];
  const auto n = const_int(RangeView(outer).size);
  if (!n || RangeView(outer).number != outer_part(RangeView(inner).number)) return;
  const bool computes = has_softmax(c, [](Ref s) { return holds_reduction(s); });
  if (computes && *n <= 64) c.try_opt({OptKind::Upcast, c.id_of(outer), *n});
  if (!computes && has_softmax(c, [](Ref s) { return !varies_in_lanes(ReduceView(s).values[0]); }))
    c.try_opt({OptKind::Upcast, c.id_of(outer), c.machine.shared_columns});
}

// Sums of products of bytes, four at a time.
void choose_dot(OptChoice& c) {
  for (bool again = true; again;) {
    again = false;
    for (Ref reduce : reductions_of(c.stores)) {
      if (reduce->op != Op::ReduceSum || reduce->dtype != DType::I32) continue;
      const Refs ranges = own_ranges(reduce);
      if (std::any_of(ranges.begin(), ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::Byte; })) continue;
      for (Ref r : ranges)
        if ((again = c.try_opt({OptKind::Dot, c.id_of(r), 4}))) break;
      if (again) break;
    }
  }
}

// Terms of a sum in lanes, where these read neighbours.
void choose_group(OptChoice& c) {
  for (bool again = true; again;) {
    again = false;
    for (Ref reduce : reductions_of(c.stores)) {
      Ref best;
      int best_score = 0;
      for (Ref r : own_ranges(reduce)) {
        if (c.lanes_for(r) == 0) continue;
        const Walk w = walk({ReduceView(reduce).values[0]}, r);
        const int score = w.neighbours - 2 * w.scattered;
        if (score > best_score && why_not(c.stores, {OptKind::Group, c.id_of(r), c.lanes_for(r)}).empty())
          best_score = score, best = r;
      }
      if (best && !varies_in_lanes(ReduceView(reduce).values[0]) &&
          c.try_opt({OptKind::Group, c.id_of(best), c.lanes_for(best)})) {
        again = true;
        break;
      }
    }
  }
}

}  // namespace smelt
