// Products of halves of many tokens with a matrix, by the unit of a warpgroup (matrix_halves.h).
#include <algorithm>
#include <numeric>

#include "codegen/matrix_halves.h"
#include "codegen/opt_choice.h"
#include "codegen/products_of_halves.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

constexpr int64_t kMostGroups = 2;        // of four warps, that a block has: they share what it reads of tokens
constexpr int64_t kMostGroupsOfTile = 4;  // which has a processor for itself
constexpr int64_t kHalvesOfRound = 128;   // of a row, that a block has on chip for one barrier

Refs sums_of_halves(const OptChoice& c) {
  Refs sums = reductions_of(c.stores);
  std::erase_if(sums, [](Ref n) { return !adds_halves(n); });
  return sums;
}

Ref sum_of_halves(const OptChoice& c) {
  const Refs sums = sums_of_halves(c);
  return sums.empty() ? Ref() : sums[0];
}

int64_t written_terms(Ref sum) {
  int64_t written = 1;
  for (Ref r : own_ranges(sum))
    if (kind_of(r) == RangeKind::Unroll) written *= RangeView(r).count();
  return written;
}

// The terms of a round of sum number `k` are written out: the nearest ones first.
void unroll_terms(OptChoice& c, size_t k) {
  for (bool again = true; again;) {
    again = false;
    const Ref sum = sums_of_halves(c)[k];
    const Refs ranges = own_ranges(sum);
    const int64_t written = written_terms(sum);
    for (size_t i = ranges.size(); i-- > 0 && !again;) {
      if (kind_of(ranges[i]) != RangeKind::Reduce) continue;
      const int64_t size = known_divisor(RangeView(ranges[i]).size);
      for (int64_t n = std::min(size, kHalvesOfRound / written); n > 1 && !again; --n)
        if (size % n == 0) again = c.try_opt({OptKind::Unroll, c.id_of(ranges[i]), n});
      if (!again) return;
    }
  }
}

void unroll_round(OptChoice& c) {
  for (size_t k = 0; k < sums_of_halves(c).size(); ++k) unroll_terms(c, k);
}

// Columns: eight lie side by side, with threads and copies as the unit has its sums.
bool try_columns(OptChoice& c, Ref tokens) {
  return take_part(c, OptKind::Upcast, tokens, 2) && take_part(c, OptKind::Local, tokens, kFragmentPlaces);
}

// Whether only one side of the products changes along an axis: all of its columns multiply with the same rows.
bool is_of_columns(Ref sum, Ref axis) {
  const auto [x, y] = BinaryView(ReduceView(sum).values[0]);
  return depends_on(x, axis) != depends_on(y, axis);
}

// Further eights of columns, of one product.
void take_eights(OptChoice& c, Ref rows, Ref lane, int64_t most) {
  for (Ref r : c.output_axes()) {
    if (kind_of(r) != RangeKind::Loop || r == rows || r == lane || !is_of_columns(sum_of_halves(c), r)) continue;
    for (int64_t n = most; n > 1; --n)
      if (known_divisor(RangeView(r).size) % n == 0 && take_part(c, OptKind::Upcast, r, n)) return;
  }
}

// Groups of four warps of a block: as many as leave room for two rounds on chip, whose rows take a byte for each weight
// at most.
int64_t groups_with_room(const OptChoice& c, const MatrixUnit& unit) {
  if (c.is_part_of_tile()) return kMostGroupsOfTile;
  int64_t groups = kMostGroups;
  const auto bytes = [&] { return written_terms(sum_of_halves(c)) * (2 * unit.n + groups * unit.m); };
  while (groups > 1 && 2 * bytes() > c.machine.ring_bytes) --groups;
  return groups;
}

// Axes that are left of the rows: `first`, and those along which nothing but the rows changes.
Refs rows_left(const OptChoice& c, Ref first) {
  const auto [x, y] = BinaryView(ReduceView(sum_of_halves(c)).values[0]);
  const Refs of_x = ranges_of(x);
  const bool are_x = std::any_of(of_x.begin(), of_x.end(), [](Ref r) { return kind_of(r) == RangeKind::MatrixRow; });
  Refs axes;
  if (first) axes.push_back(first);
  for (Ref r : c.output_axes())
    if (kind_of(r) == RangeKind::Loop && r != first && depends_on(are_x ? x : y, r) && !depends_on(are_x ? y : x, r))
      axes.push_back(r);
  return axes;
}

// Rows to so many warps, of the axis `first` if it has them.
bool try_warps(OptChoice& c, Ref first, int64_t warps) {
  const Refs stores = c.stores;
  const std::vector<Opt> opts = c.opts;
  for (Ref axis : rows_left(c, first)) {
    const int64_t n = std::gcd(known_divisor(RangeView(axis).size), warps);
    if (n > 1 && take_part(c, OptKind::Local, axis, n)) warps /= n;
  }
  if (warps == 1) return true;
  c.stores = stores, c.opts = opts;
  return false;
}

// Axes along which the nest stores neighbours come first.
void sort_by_stores(const OptChoice& c, Refs& axes) {
  const auto step = [&](Ref r) { return stride(StoreView(c.stores[0]).offset, r).value_or(INT64_MAX); };
  std::stable_sort(axes.begin(), axes.end(), [&](Ref a, Ref b) { return step(a) < step(b); });
}

// Axes along which the terms read neighbours come first: what a block has of them then lies side by side.
void sort_by_loads(const OptChoice& c, Refs& axes) {
  const Refs nodes = toposort(ReduceView(sum_of_halves(c)).values[0]);
  const auto step = [&](Ref r) {
    int64_t least = INT64_MAX;
    for (Ref n : nodes)
      if (n->op == Op::Load && depends_on(LoadView(n).offset, r))
        least = std::min(least, stride(LoadView(n).offset, r).value_or(INT64_MAX));
    return least;
  };
  std::stable_sort(axes.begin(), axes.end(), [&](Ref a, Ref b) { return step(a) < step(b); });
}

// Eight threads to rows: along `lane`, and where that has fewer, along what the nest stores side by side.
bool try_lanes(OptChoice& c, Ref& lane, Ref rows) {
  int64_t left = kFragmentGroups;
  const auto take = [&](Ref& axis) {
    const int64_t n = std::gcd(known_divisor(RangeView(axis).size), left);
    if (n > 1 && take_part(c, OptKind::Local, axis, n)) left /= n;
  };
  take(lane);
  Refs axes = c.output_axes();
  std::erase_if(axes, [&](Ref r) {
    return kind_of(r) != RangeKind::Loop || r == rows || r == lane || !is_of_columns(sum_of_halves(c), r);
  });
  sort_by_stores(c, axes);
  for (Ref axis : axes)
    if (left > 1) take(axis);
  return left == 1;
}

// `rows` and `lane`, which may be the same, are axes of the matrix.
bool try_rows(OptChoice& c, const MatrixUnit& unit, Ref rows, Ref lane) {
  const bool are_same = rows == lane;
  if (!try_lanes(c, lane, rows)) return false;
  if (are_same) rows = lane;
  unroll_round(c);
  if (!rows || !take_part(c, OptKind::Matrix, rows, 2)) return false;
  for (int64_t groups = groups_with_room(c, unit); groups > 0; --groups)
    if (try_warps(c, rows, groups * kWarpgroupWarps)) return true;
  return false;
}

// Two neighbouring rows in each thread, which loads the words of both at once, so that a warp reads whole lines.
bool try_neighbours(OptChoice& c, const MatrixUnit& unit, Ref lane) {
  auto [rows, outer] = split_axis(c, lane, 2);
  if (!rows || !outer) return false;
  take_eights(c, rows, outer, unit.n / kFragmentGroups);
  return try_rows(c, unit, rows, outer);
}

}  // namespace

bool choose_halves(OptChoice& c) {
  const MatrixUnit& unit = lane_rules(c.machine).halves;
  if (unit.m == 0 || unit.loads_operands || !sum_of_halves(c)) return false;
  const Refs axes = c.output_axes(), stores = c.stores;
  const std::vector<Opt> opts = c.opts;
  // A tile of one chunk reads keys and values once, from memory.
  const bool is_of_few = c.is_part_of_tile() && !chunk_range(c.stores);
  // Threads side by side want words side by side, and store neighbours. The rows of a tile are read by all of its tasks
  // from the caches.
  Refs lanes(axes.rbegin(), axes.rend()), near = axes;
  sort_by_stores(c, lanes);
  sort_by_loads(c, near);
  const Ref pairs = c.is_part_of_tile() ? pairs_of_rows(c) : Ref();
  const Refs row_axes = pairs ? Refs{pairs} : c.is_part_of_tile() ? axes : near;
  for (Ref tokens : axes)
    for (Ref lane : lanes) {
      if (lane == pairs) continue;
      if (is_of_few && !pairs && tokens != lane) {
        if (try_columns(c, tokens) && try_neighbours(c, unit, lane)) return true;
        c.stores = stores, c.opts = opts;
      }
      for (Ref rows : row_axes) {
        if (tokens == lane || tokens == rows) continue;
        if (try_columns(c, tokens)) {
          take_eights(c, rows, lane, unit.n / kFragmentGroups);
          if (try_rows(c, unit, rows, lane)) return true;
        }
        c.stores = stores, c.opts = opts;
      }
    }
  return false;
}

}  // namespace smelt
