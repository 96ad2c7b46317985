#include "schedule/tiles.h"

#include <algorithm>
#include <limits>

#include "base/ensure.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/lower.h"
#include "schedule/mask_limit.h"

namespace smelt {
namespace {

// Each warp then has two blocks of positions, which share the words of queries.
constexpr int64_t kLimitStepOfUnit = 256;

int64_t greatest_divisor(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

Ref range_of_axis(Ref store, int64_t axis) {
  for (Ref r : StoreView(store).ranges)
    if (RangeView(r).number == output_range(axis)) return r;
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
    const auto [number, size, kind] = RangeView(range);
    Cut cut{.range = range, .outer = {}, .inner = {}};
    if (shape.has_all_chunks && axis == shape.axis) {
      cut.outer = with_kind(range, RangeKind::Chunk);
    } else if (is_const(size, inside)) {
      cut.inner = range;
    } else if (inside == 1) {
      cut.outer = with_kind(range, RangeKind::Tile);
    } else {
      cut.outer = make_range(outer_part(number), simplify(size / inside), RangeKind::Tile);
      cut.inner = make_range(inner_part(number), constant(inside), RangeKind::Loop);
    }
    cuts.push_back(cut);
  }
  return cuts;
}

Replacements replacements_of(const std::vector<Cut>& cuts) {
  Replacements by;
  for (const Cut& c : cuts) {
    if (c.range == c.inner) continue;
    by[c.range] = c.inner ? simplify(c.outer * RangeView(c.inner).size + c.inner) : c.outer;
  }
  return by;
}

// The end of the positions of a chunk that each row of the tile counts; empty if all do.
Refs limits_of_rows(const std::vector<Cut>& cuts, Ref score, Ref positions) {
  const auto mask = mask_of(score, Op::SoftmaxSum);
  if (!mask) return {};
  const auto limit = end_of(*mask, positions);
  if (!limit) return {};
  Refs limits{substitute(*limit, replacements_of(cuts))};
  for (const Cut& c : cuts) {
    if (!c.inner || !depends_on(limits[0], c.inner)) continue;
    Refs each;
    const int64_t rows = *const_int(RangeView(c.inner).size);
    for (Ref l : limits)
      for (int64_t i = 0; i < rows; ++i) each.push_back(substitute(l, {{c.inner, constant(i)}}));
    limits = std::move(each);
  }
  return limits;
}

bool is_on_chip(Ref store) { return StoreView(store).buffer->op == Op::Local; }

Ref greatest(const Refs& values) {
  Ref most = values[0];
  for (size_t i = 1; i < values.size(); ++i) most = binary(Op::Max, most, values[i]);
  return most;
}

// The number of positions of a chunk that some row of the tile counts, rounded up.
Ref limit_of_tile(const Refs& limits, Ref size, int64_t step) {
  if (limits.empty()) return Ref();
  const Ref clamped = simplify(binary(Op::Max, binary(Op::Min, greatest(limits), size), constant(0)) + (step - 1));
  return simplify(clamped / step) * constant(step);
}

// The loop over chunks without those behind the last position that some row of the tile counts.
Ref without_masked(Ref chunks, Refs limits, int64_t chunk) {
  for (Ref& l : limits) {
    if (stride(l, chunks) != -chunk) return chunks;
    l = simplify(substitute(l, {{chunks, constant(0)}}));
  }
  if (limits.empty()) return chunks;
  const Ref counted = simplify(binary(Op::Max, greatest(limits), constant(1)) + (chunk - 1));
  return with_size(chunks, simplify(binary(Op::Min, simplify(counted / chunk), RangeView(chunks).size)));
}

// The ranges of a store's reductions that run over positions of what a tile has on chip.
Refs reductions_over_positions(Ref store, const Refs& on_chip, int64_t chunk) {
  Refs found;
  for (Ref n : toposort(store)) {
    if (!is_reduce(n->op)) continue;
    const ReduceView reduce(n);
    const Ref range = reduce.ranges.back();
    if (!is_const(RangeView(range).size, chunk)) continue;
    const Refs below = toposort(reduce.values[0]);
    if (std::any_of(below.begin(), below.end(), [&](Ref x) {
          return x->op == Op::Load && depends_on(LoadView(x).offset, range) && contains(on_chip, LoadView(x).buffer);
        }))
      found.push_back(range);
  }
  return found;
}

// The ranges of a tile, outermost first. Where the work differs along several of them, these go inside, so that equal
// shares are about equal work. Blocks of threads take tasks one by one: there heads that read the same keys go inside,
// so that they read them at the same time and memory is read once.
Refs in_order(Refs ranges, Ref chunks, Ref limit, const Machine& machine) {
  const auto is_ragged = [&](Ref r) { return limit && depends_on(limit, r); };
  const auto ragged = std::count_if(ranges.begin(), ranges.end(), is_ragged);
  std::stable_sort(ranges.begin(), ranges.end(), [&](Ref a, Ref b) {
    const auto rank = [&](Ref r) {
      if (ragged > 1 && !is_ragged(r)) return machine.has_threads() ? 3 : 0;
      return r == chunks ? 1 : 2;
    };
    return rank(a) < rank(b);
  });
  return ranges;
}

// REQUIRES: the ranges of the store, if replaced, are leading ones.
Ref with_loops(Ref node, const Refs& tile, const std::vector<Cut>& cuts, const Replacements& by) {
  const StoreView store(node);
  Refs ranges = tile;
  for (Ref range : store.ranges) {
    const auto cut = std::find_if(cuts.begin(), cuts.end(), [&](const Cut& c) { return c.range == range; });
    if (cut == cuts.end())
      ranges.push_back(substitute(range, by));
    else if (cut->inner)
      ranges.push_back(cut->inner);
  }
  return make_store(store.buffer, substitute(store.offset, by), substitute(store.value, by), ranges);
}

// Threads compute positions side by side: each round waits for memory anew, so few long ones are better than many short
// ones. A unit that loads its operands multiplies as many positions at once as it has bytes in a row: with fewer, each
// of its products costs nearly as much.
int64_t step_of_positions(const Machine& machine, int64_t chunk, bool has_columns) {
  int64_t step = kLimitStep;
  if (machine.has_threads())
    step = has_columns ? kLimitStepOfUnit : std::min(machine.tile_positions, chunk);
  else if (const MatrixUnit* unit = unit_for_bytes(machine); unit && unit->loads_operands)
    step = unit->k;
  return step % kLimitStep == 0 && chunk % step == 0 ? step : kLimitStep;
}

// Tasks that a chunk makes as far as its axes have known sizes; 0: some have not, and count as long.
int64_t tasks_of_chunk(const TileShape& shape, Ref scores) {
  int64_t tasks = 1;
  for (int k = 0; k < shape.axis; ++k) {
    const auto n = const_int(scores->shape[static_cast<size_t>(k)]);
    if (!n) return 0;
    tasks *= *n / shape.extents[static_cast<size_t>(k)];
  }
  return tasks;
}

// A tile that holds all of its axes is the only task of a chunk. In halves, several workers have tasks from the first
// chunk on, and about equal shares of any number of chunks. Where there are far more workers than halves, odd parts are
// better than none.
void leave_tasks(TileShape& shape, Ref scores, const Machine& machine) {
  const std::vector<int64_t> factors =
      machine.has_threads() ? std::vector<int64_t>{2, 3, 5, 7} : std::vector<int64_t>{2};
  for (int64_t tasks = tasks_of_chunk(shape, scores); tasks > 0 && tasks < machine.chunk_tasks;) {
    const int64_t before = tasks;
    for (int64_t f : factors) {
      const auto whole =
          std::find_if(shape.extents.begin(), shape.extents.end(), [f](int64_t n) { return n % f == 0; });
      if (whole == shape.extents.end()) continue;
      *whole /= f, tasks *= f;
      break;
    }
    if (tasks == before) return;
  }
}

// Tasks of all chunks where a tile has up to so many rows: heads of one key first.
int64_t tasks_with(int64_t rows, const TileTensors& tile) {
  const Ref scores = tile.inner.front();
  int64_t tasks = scores->shape[static_cast<size_t>(tile.axis)]->max;
  for (size_t k = static_cast<size_t>(tile.axis); k-- > 0;) {
    const int64_t size = known_divisor(scores->shape[k]), inside = greatest_divisor(size, rows);
    tasks *= size / inside;
    rows = inside == size ? rows / inside : 1;
  }
  return tasks;
}

constexpr int64_t kFewestRows = 2;  // of which a thread computes both from what it reads

// Rows of a tile where tokens are few. As long as all tiles of the longest context are no more than processors, fewer
// rows are sooner done.
int64_t few_rows(const TileTensors& tile, const Machine& machine) {
  if (machine.tile_rows == 0) return std::numeric_limits<int64_t>::max();
  const Ref chunks = tile.inner.front()->shape[static_cast<size_t>(tile.axis)];
  const bool is_long = chunks->max * tile.chunk > machine.short_context;
  int64_t rows = is_long ? machine.tile_rows : std::min(kFewestRows, machine.tile_rows);
  while (rows < machine.tile_rows && tasks_with(rows, tile) > machine.tasks) ++rows;
  return rows;
}

constexpr int64_t kRestOfTile = 16 << 10;  // on chip, for what is small

int64_t bytes_behind(Ref tensor, int axis) {
  int64_t bytes = size_of(tensor->dtype);
  for (size_t k = static_cast<size_t>(axis); k < tensor->shape.size(); ++k)
    bytes *= const_int(tensor->shape[k]).value_or(1);
  return bytes;
}

// Columns of a tile whose products are made of halves: as many as the unit has, and what is on chip of them has room.
// 0: it is no such tile.
int64_t columns_of_halves(const TileTensors& tile, const Machine& machine) {
  const MatrixUnit* unit = unit_of_warpgroup(machine);
  if (!unit || tile.rows.empty()) return 0;
  int64_t bytes = 0;  // of a column
  for (Ref n : tile.inner) bytes += bytes_behind(n, tile.axis + 1);
  for (const Refs& tensors : {tile.rows, tile.sums})
    for (Ref n : tensors) bytes += bytes_behind(n, tile.axis);
  const int64_t room = (machine.block_memory_bytes - kRestOfTile) / bytes / kFragmentGroups * kFragmentGroups;
  return std::clamp(room, kFragmentGroups, unit->n);
}

// Heads of a token that read the same keys, in whole eights: as many as there is room for. Tokens of a batch have keys
// of their own; nor would tiles of fewer heads be sooner done, as all of them unpack the same keys.
int64_t heads_of_halves(int64_t heads, int64_t columns) {
  return kFragmentGroups * greatest_divisor(heads / kFragmentGroups, columns / kFragmentGroups);
}

// As many heads of a token as a tile of a wide context has: see wide_chunks(). 0: none is wide.
int64_t heads_of_wide(const Machine& machine, int64_t tokens, int64_t chunks, int64_t heads) {
  const int64_t columns = unit_for_bytes(machine)->n;
  if (chunks <= wide_chunks(machine, tokens, heads) || heads % columns != 0) return 0;
  const int64_t blocks = greatest_divisor(heads / columns, kMostBlocksOfColumns);
  return blocks > 1 ? blocks * columns : 0;
}

// Whether weights of a softmax are bytes.
bool multiplies_bytes(const TileTensors& tile) {
  return std::any_of(tile.inner.begin(), tile.inner.end(), [](Ref n) { return size_of(n->dtype) == 1; });
}

constexpr int64_t kMostTilesInTurn = 2;        // of a processor
constexpr int64_t kBytesOfWideHead = 4 << 10;  // on chip, of a head's query, and its scores and weights of a chunk

}  // namespace

int64_t wide_chunks(const Machine& machine, int64_t tokens, int64_t heads) {
  const MatrixUnit* unit = machine.has_threads() ? unit_for_bytes(machine) : nullptr;
  if (!unit || heads <= unit->n) return std::numeric_limits<int64_t>::max();
  const int64_t blocks = (heads + unit->n - 1) / unit->n, tiles = tokens * blocks;  // of a chunk
  const int64_t of_wide = std::min(blocks, kMostBlocksOfColumns) * unit->n;
  if (of_wide * kBytesOfWideHead > machine.block_memory_bytes) return std::numeric_limits<int64_t>::max();
  return kMostTilesInTurn * machine.tasks / tiles;
}

TileShape shape_of_tile(const TileTensors& tile, const Machine& machine) {
  TileShape shape{.axis = tile.axis, .chunk = tile.chunk, .extents = {}};
  shape.extents.assign(static_cast<size_t>(tile.axis) + 1, 1);
  const Ref scores = tile.inner.front();
  int64_t bytes = size_of(scores->dtype);
  for (size_t k = shape.extents.size(); k < scores->shape.size(); ++k) bytes *= *const_int(scores->shape[k]);
  const bool has_few_tokens = const_int(scores->shape[0]).has_value();
  int64_t rows = has_few_tokens ? few_rows(tile, machine) : std::numeric_limits<int64_t>::max();
  const int64_t columns = columns_of_halves(tile, machine), most_bytes = columns ? columns * bytes : machine.tile_bytes;
  const auto take = [&](size_t k, int64_t most) {
    const int64_t fit = std::max<int64_t>(most_bytes / bytes, 1);
    shape.extents[k] = greatest_divisor(known_divisor(scores->shape[k]), std::min(fit, most));
    bytes *= shape.extents[k];
    const bool is_whole = shape.extents[k] == known_divisor(scores->shape[k]);
    rows = is_whole || !has_few_tokens ? rows / shape.extents[k] : 1;
  };
  const MatrixUnit* unit = machine.has_threads() ? unit_for_bytes(machine) : nullptr;
  const bool has_columns = unit && !has_few_tokens;
  if (has_columns) take(0, unit->n);
  // Heads that read the same bytes are the columns where tokens are few, but not as few as one on some machines.
  const int64_t most = scores->shape[static_cast<size_t>(tile.axis)]->max * tile.chunk;
  const int64_t heads = known_divisor(scores->shape[shape.extents.size() - 2]);
  int64_t& heads_of_tile = shape.extents[shape.extents.size() - 2];
  const bool multiplies_by_unit =
      unit && has_few_tokens && *const_int(scores->shape[0]) >= machine.unit_tokens && multiplies_bytes(tile);
  const int64_t wide =
      multiplies_by_unit ? heads_of_wide(machine, *const_int(scores->shape[0]), most / tile.chunk, heads) : 0;
  if (columns && has_few_tokens && heads % kFragmentGroups == 0) {
    heads_of_tile = heads_of_halves(heads, columns);
  } else if (wide > 0) {
    heads_of_tile = wide;
    shape.copies_columns = true;
  } else {
    shape.copies_columns = multiplies_by_unit && heads % unit->n == 0;
    if (shape.copies_columns) rows = unit->n;
    for (size_t k = shape.extents.size() - 1; k-- > (has_columns ? 1 : 0);) take(k, rows);
    leave_tasks(shape, scores, machine);
  }
  shape.step = step_of_positions(machine, tile.chunk, has_columns);
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

TileStores share_loops(const TileShape& shape, const TileStores& stores, const Machine& machine) {
  const Ref scores = stores.chunk.front();
  std::vector<Cut> cuts = cuts_of(shape, scores);
  const Ref positions = range_of_axis(scores, shape.axis + 1);
  Refs limits = positions ? limits_of_rows(cuts, StoreView(scores).value, positions) : Refs();
  Ref chunk_loop;
  if (shape.has_all_chunks && !cuts.empty() && RangeView(cuts.back().range).number == output_range(shape.axis)) {
    chunk_loop = without_masked(cuts.back().outer, limits, shape.chunk);
    for (Ref& l : limits) l = substitute(l, {{cuts.back().outer, chunk_loop}});
    cuts.back().outer = chunk_loop;
  }
  const Ref limit = positions ? limit_of_tile(limits, RangeView(positions).size, shape.step) : Ref();
  Refs tile, on_chip;
  Ref chunks;
  for (const Cut& c : cuts) {
    if (c.outer && c.outer != chunk_loop) tile.push_back(c.outer);
    if (RangeView(c.range).number == output_range(shape.axis)) chunks = c.outer;
  }
  if (tile.empty()) tile.push_back(make_range(output_range(0), constant(1), RangeKind::Tile));  // one task
  tile = in_order(std::move(tile), chunks, limit, machine);
  Refs of_chunk = tile;
  if (chunk_loop) of_chunk.push_back(chunk_loop);
  for (Ref store : stores.chunk)
    if (is_on_chip(store)) on_chip.push_back(StoreView(store).buffer);
  const auto with_limit = [&](Ref store, bool holds_positions) {
    Replacements by = replacements_of(cuts);
    const auto shorten = [&](Ref range) { by[range] = with_size(range, limit); };
    // Equal sizes make equal ranges: each store is asked for itself which of its ranges are positions.
    if (limit && holds_positions) shorten(positions);
    if (limit)
      for (Ref range : reductions_over_positions(store, on_chip, shape.chunk)) shorten(range);
    return with_loops(store, of_chunk, cuts, by);
  };
  TileStores out;
  for (Ref store : stores.chunk) out.chunk.push_back(with_limit(store, is_on_chip(store)));
  for (Ref store : stores.combine) out.combine.push_back(with_limit(store, false));
  for (const auto& [from, to] : {std::pair{&stores.before, &out.before}, {&stores.after, &out.after}})
    for (Ref store : *from) to->push_back(with_loops(store, tile, cuts, replacements_of(cuts)));
  return out;
}

Refs tile_ranges(const Refs& stores) { return all_of_kind(StoreView(stores[0]).ranges, RangeKind::Tile); }

Ref chunk_range(const Refs& stores) { return first_of_kind(StoreView(stores[0]).ranges, RangeKind::Chunk); }

bool goes_in_sweeps(const Refs& stores) { return bool(first_of_kind(StoreView(stores[0]).ranges, RangeKind::Sweep)); }

bool run_together(const Refs& stores, const Refs& others) {
  const Refs tile = tile_ranges(stores);
  return !tile.empty() && tile == tile_ranges(others) && !goes_in_sweeps(stores) && !goes_in_sweeps(others);
}

}  // namespace smelt
