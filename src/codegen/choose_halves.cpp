// Products of halves of many tokens with a matrix, by the unit of a warpgroup (matrix_halves.h).
#include <algorithm>

#include "codegen/matrix_halves.h"
#include "codegen/opt_choice.h"
#include "codegen/products_of_halves.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr int64_t kMostGroups = 2;       // of four warps, that a block has: they share what it reads of tokens
constexpr int64_t kHalvesOfRound = 128;  // of a row, that a block has on chip for one barrier
constexpr int64_t kMostOfRound = 256;    // where blocks are so long: rounds are to be one loop

Ref sum_of_halves(const OptChoice& c) {
  for (Ref n : reductions_of(c.stores))
    if (adds_halves(n)) return n;
  return Ref();
}

int64_t written_terms(const OptChoice& c) {
  int64_t written = 1;
  for (Ref r : own_ranges(sum_of_halves(c)))
    if (kind_of(r) == RangeKind::Unroll) written *= RangeView(r).count();
  return written;
}

// The terms of a round are written out, at most so many: the nearest ones first.
void unroll_terms(OptChoice& c, int64_t most) {
  for (bool again = true; again;) {
    again = false;
    const Refs ranges = own_ranges(sum_of_halves(c));
    const int64_t written = written_terms(c);
    for (size_t i = ranges.size(); i-- > 0 && !again;) {
      if (kind_of(ranges[i]) != RangeKind::Reduce) continue;
      const int64_t size = known_divisor(RangeView(ranges[i]).size);
      for (int64_t n = std::min(size, most / written); n > 1 && !again; --n)
        if (size % n == 0) again = c.try_opt({OptKind::Unroll, c.id_of(ranges[i]), n});
      if (!again) return;
    }
  }
}

void unroll_round(OptChoice& c) {
  unroll_terms(c, kHalvesOfRound);
  const Refs ranges = own_ranges(sum_of_halves(c));
  const auto is_loop = [](Ref r) { return kind_of(r) == RangeKind::Reduce; };
  if (std::count_if(ranges.begin(), ranges.end(), is_loop) > 1) unroll_terms(c, kMostOfRound);
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
  int64_t groups = kMostGroups;
  const auto bytes = [&] { return written_terms(c) * (2 * unit.n + groups * unit.m); };
  while (groups > 1 && 2 * bytes() > c.machine.ring_bytes) --groups;
  return groups;
}

// `rows` and `lane`, which may be the same, are axes of the matrix.
bool try_rows(OptChoice& c, const MatrixUnit& unit, Ref rows, Ref lane) {
  const bool are_same = rows == lane;
  if (!take_part(c, OptKind::Local, lane, kFragmentGroups)) return false;
  if (are_same) rows = lane;
  unroll_round(c);
  if (!rows || !take_part(c, OptKind::Matrix, rows, 2)) return false;
  for (int64_t groups = groups_with_room(c, unit); rows && groups > 0; --groups)
    if (known_divisor(RangeView(rows).size) % (groups * kWarpgroupWarps) == 0 &&
        take_part(c, OptKind::Local, rows, groups * kWarpgroupWarps))
      return true;
  return false;
}

}  // namespace

bool choose_halves(OptChoice& c) {
  const MatrixUnit& unit = lane_rules(c.machine).halves;
  if (unit.m == 0 || c.is_part_of_tile() || !sum_of_halves(c)) return false;
  const Refs axes = c.output_axes(), stores = c.stores;
  const std::vector<Opt> opts = c.opts;
  // Threads side by side want words side by side: of the matrix's axes, the innermost first.
  const Refs lanes(axes.rbegin(), axes.rend());
  for (Ref tokens : axes)
    for (Ref lane : lanes)
      for (Ref rows : axes) {
        if (tokens == lane || tokens == rows) continue;
        if (try_columns(c, tokens)) {
          take_eights(c, rows, lane, unit.n / kFragmentGroups);
          if (try_rows(c, unit, rows, lane)) return true;
        }
        c.stores = stores, c.opts = opts;
      }
  return false;
}

}  // namespace smelt
