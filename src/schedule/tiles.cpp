#include "schedule/tiles.h"

#include <algorithm>

#include "base/ensure.h"
#include "graph/range_kind.h"
#include "graph/rules_algebra.h"
#include "schedule/lower.h"
#include "schedule/mask_limit.h"

namespace smelt {
namespace {

RangeKind kind_of(Ref range) { return static_cast<RangeKind>(range->arg.list[0]); }

// A number that divides the size: the size itself if it is known.
int64_t divisor_of(Ref size) {
  if (const auto n = const_int(size)) return *n;
  const bool is_multiple = size->op == Op::Mul && const_int(size->src[1]);
  return is_multiple ? *const_int(size->src[1]) : 1;
}

int64_t greatest_divisor(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

Ref range_of_axis(Ref store, int64_t axis) {
  for (size_t i = 3; i < store->src.size(); ++i)
    if (store->src[i]->arg.i == kFirstOutputRange + axis) return store->src[i];
  return Ref();
}

// A leading axis cut into the part that tiles share out and the part inside of them.
struct Cut {
  Ref range;
  Ref outer, inner;  // either may be missing
};

// REQUIRES: where the tile has all chunks, the axis of these comes last.
std::vector<Cut> cuts_of(const TileShape& shape, Ref store) {
  std::vector<Cut> cuts;
  for (int axis = 0; axis <= shape.axis; ++axis) {
    const Ref range = range_of_axis(store, axis);
    if (!range) continue;  // of one element
    const int64_t inside = shape.extents[static_cast<size_t>(axis)];
    const Ref size = range->src[0];
    Cut cut{.range = range, .outer = {}, .inner = {}};
    if (shape.has_all_chunks && axis == shape.axis) {
      cut.outer = make_range(range->arg.i, size, RangeKind::Step);
    } else if (is_const(size, inside)) {
      cut.inner = range;
    } else if (inside == 1) {
      cut.outer = make_range(range->arg.i, size, RangeKind::Tile);
    } else {
      cut.outer = make_range(2 * range->arg.i, simplify(size / inside), RangeKind::Tile);
      cut.inner = make_range(2 * range->arg.i + 1, constant(inside), RangeKind::Loop);
    }
    cuts.push_back(cut);
  }
  return cuts;
}

Replacements replacements_of(const std::vector<Cut>& cuts) {
  Replacements by;
  for (const Cut& c : cuts) {
    if (c.range == c.inner) continue;
    by[c.range] = c.inner ? simplify(c.outer * c.inner->src[0] + c.inner) : c.outer;
  }
  return by;
}

// The positions of a chunk that each row of the tile counts; empty if all do.
Refs limits_of_rows(const std::vector<Cut>& cuts, Ref score, Ref positions) {
  const auto mask = mask_of(score, Op::SoftmaxSum);
  if (!mask) return {};
  const auto limit = limit_of(*mask, positions);
  if (!limit) return {};
  Refs limits{substitute(*limit, replacements_of(cuts))};
  for (const Cut& c : cuts) {
    if (!c.inner || !depends_on(limits[0], c.inner)) continue;
    Refs each;
    for (Ref l : limits)
      for (int64_t i = 0; i < *const_int(c.inner->src[0]); ++i)
        each.push_back(substitute(l, {{c.inner, constant(i)}}));
    limits = std::move(each);
  }
  return limits;
}

Ref greatest(const Refs& values) {
  Ref most = values[0];
  for (size_t i = 1; i < values.size(); ++i) most = binary(Op::Max, most, values[i]);
  return most;
}

// The number of positions of a chunk that some row of the tile counts, rounded up.
Ref limit_of_tile(const Refs& limits, Ref size) {
  if (limits.empty()) return Ref();
  const Ref clamped = simplify(
      binary(Op::Max, binary(Op::Min, greatest(limits), size), constant(0)) + (kLimitStep - 1));
  return simplify(clamped / kLimitStep) * constant(kLimitStep);
}

// The loop over chunks without those behind the last position that some row of the tile counts.
Ref without_masked(Ref chunks, Refs limits, int64_t chunk) {
  for (Ref& l : limits) {
    if (stride(l, chunks) != -chunk) return chunks;
    l = simplify(substitute(l, {{chunks, constant(0)}}));
  }
  if (limits.empty()) return chunks;
  const Ref counted = simplify(binary(Op::Max, greatest(limits), constant(1)) + (chunk - 1));
  const Ref size = simplify(binary(Op::Min, simplify(counted / chunk), chunks->src[0]));
  return make(Op::Range, DType::I64, {size}, chunks->arg);
}

// The ranges of a store's reductions that run over positions of what a tile has on chip.
Refs reductions_over_positions(Ref store, const Refs& on_chip, int64_t chunk) {
  Refs found;
  for (Ref n : toposort(store)) {
    if (!is_reduce(n->op) || !is_const(n->src.back()->src[0], chunk)) continue;
    const Ref range = n->src.back();
    const Refs below = toposort(n->src[0]);
    if (std::any_of(below.begin(), below.end(), [&](Ref x) {
          return x->op == Op::Load && depends_on(x->src[1], range) && contains(on_chip, x->src[0]);
        }))
      found.push_back(range);
  }
  return found;
}

// Where axes along which the work differs are several, equal shares of them are not equal work: they go inside.
Refs in_order(Refs ranges, Ref chunks, Ref limit) {
  const auto is_ragged = [&](Ref r) { return limit && depends_on(limit, r); };
  const auto ragged = std::count_if(ranges.begin(), ranges.end(), is_ragged);
  std::stable_sort(ranges.begin(), ranges.end(), [&](Ref a, Ref b) {
    const auto rank = [&](Ref r) { return ragged > 1 && !is_ragged(r) ? 0 : r == chunks ? 1 : 2; };
    return rank(a) < rank(b);
  });
  return ranges;
}

// REQUIRES: the ranges of the store, if replaced, are leading ones.
Ref with_loops(Ref store, const Refs& tile, const std::vector<Cut>& cuts, const Replacements& by) {
  Refs src(store->src.begin(), store->src.begin() + 3);
  for (Ref& s : src) s = substitute(s, by);
  src.insert(src.end(), tile.begin(), tile.end());
  for (size_t i = 3; i < store->src.size(); ++i) {
    const auto cut = std::find_if(cuts.begin(), cuts.end(),
                                  [&](const Cut& c) { return c.range == store->src[i]; });
    if (cut == cuts.end())
      src.push_back(substitute(store->src[i], by));
    else if (cut->inner)
      src.push_back(cut->inner);
  }
  return make(Op::Store, DType::Void, std::move(src));
}

// A tile that holds all of its axes is the only task of a chunk. In two halves, two workers have work as soon as there
// is a chunk, and equal shares of an odd number of chunks.
void leave_work_for_two(TileShape& shape, Ref scores) {
  for (int k = 0; k < shape.axis; ++k)
    if (!is_const(scores->shape[static_cast<size_t>(k)], shape.extents[static_cast<size_t>(k)]))
      return;
  for (int64_t& n : shape.extents)
    if (n % 2 == 0) {
      n /= 2;
      return;
    }
}

}  // namespace

TileShape shape_of_tile(const TileTensors& tile, int64_t tile_bytes) {
  TileShape shape{.axis = tile.axis, .chunk = tile.chunk, .extents = {}};
  shape.extents.assign(static_cast<size_t>(tile.axis) + 1, 1);
  const Ref scores = tile.inner.front();
  int64_t bytes = size_of(scores->dtype);
  for (size_t k = shape.extents.size(); k < scores->shape.size(); ++k)
    bytes *= *const_int(scores->shape[k]);
  for (size_t k = shape.extents.size() - 1; k-- > 0;) {
    const int64_t n =
        greatest_divisor(divisor_of(scores->shape[k]), std::max<int64_t>(tile_bytes / bytes, 1));
    shape.extents[k] = n;
    bytes *= n;
  }
  leave_work_for_two(shape, scores);
  return shape;
}

std::vector<int64_t> extents_in_tile(const TileShape& shape, Ref tensor, bool is_combined) {
  std::vector<int64_t> extents = shape.extents;
  if (is_combined) extents.pop_back();
  for (size_t k = extents.size(); k < tensor->shape.size(); ++k) {
    const auto n = const_int(tensor->shape[k]);
    ENSURE(n, "a tile of symbolic size");
    extents.push_back(*n);
  }
  return extents;
}

TileStores share_loops(const TileShape& shape, const TileStores& stores) {
  const Ref scores = stores.chunk.front();
  std::vector<Cut> cuts = cuts_of(shape, scores);
  const Ref positions = range_of_axis(scores, shape.axis + 1);
  Refs limits = positions ? limits_of_rows(cuts, scores->src[2], positions) : Refs();
  Ref step;
  if (shape.has_all_chunks && cuts.back().range->arg.i == kFirstOutputRange + shape.axis) {
    step = without_masked(cuts.back().outer, limits, shape.chunk);
    for (Ref& l : limits) l = substitute(l, {{cuts.back().outer, step}});
    cuts.back().outer = step;
  }
  const Ref limit = positions ? limit_of_tile(limits, positions->src[0]) : Ref();
  Refs tile, on_chip;
  Ref chunks;
  for (const Cut& c : cuts) {
    if (c.outer && c.outer != step) tile.push_back(c.outer);
    if (c.range->arg.i == kFirstOutputRange + shape.axis) chunks = c.outer;
  }
  tile = in_order(std::move(tile), chunks, limit);
  Refs of_chunk = tile;
  if (step) of_chunk.push_back(step);
  for (Ref store : stores.chunk)
    if (store->src[0]->op == Op::Local) on_chip.push_back(store->src[0]);
  const auto with_limit = [&](Ref store, bool holds_positions) {
    Replacements by = replacements_of(cuts);
    const auto shorten = [&](Ref range) {
      by[range] = make(Op::Range, DType::I64, {limit}, range->arg);
    };
    // Equal sizes make equal ranges: each store is asked for itself which of its ranges are positions.
    if (limit && holds_positions) shorten(positions);
    if (limit)
      for (Ref range : reductions_over_positions(store, on_chip, shape.chunk)) shorten(range);
    return with_loops(store, of_chunk, cuts, by);
  };
  TileStores out;
  for (Ref store : stores.chunk)
    out.chunk.push_back(with_limit(store, store->src[0]->op == Op::Local));
  for (Ref store : stores.combine) out.combine.push_back(with_limit(store, false));
  for (const auto& [from, to] :
       {std::pair{&stores.before, &out.before}, {&stores.after, &out.after}})
    for (Ref store : *from) to->push_back(with_loops(store, tile, cuts, replacements_of(cuts)));
  return out;
}

Refs tile_ranges(Ref nest) {
  Refs out;
  const Ref store = nest->src[0];
  for (size_t i = 3; i < store->src.size(); ++i)
    if (kind_of(store->src[i]) == RangeKind::Tile) out.push_back(store->src[i]);
  return out;
}

Ref step_range(Ref nest) {
  const Ref store = nest->src[0];
  for (size_t i = 3; i < store->src.size(); ++i)
    if (kind_of(store->src[i]) == RangeKind::Step) return store->src[i];
  return Ref();
}

bool goes_in_passes(Ref store) {
  return std::any_of(store->src.begin() + 3, store->src.end(),
                     [](Ref r) { return kind_of(r) == RangeKind::Pass; });
}

}  // namespace smelt
