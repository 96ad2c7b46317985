// Products of many tokens with a matrix of bytes, by the unit that the threads of a warp have together
// (matrix_fragments.h).
#include <algorithm>
#include <numeric>

#include "codegen/matrix_rows.h"
#include "codegen/opt_choice.h"
#include "codegen/sum_order.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

constexpr int64_t kMostWarps = 8;        // of a block, with fragments of their own
constexpr int64_t kFewWarps = 4;         // of many blocks of a batch: each multiprocessor has several of them
constexpr int64_t kManyBlocks = 16;      // for each multiprocessor
constexpr int64_t kMostWarpsOfRows = 6;  // of one that rows of a prompt are shared out to: more, smaller blocks
constexpr int64_t kMostWarpsOfFew = 16;  // of a tile of few tokens: such tiles are few, each has a processor for itself
constexpr int64_t kMostCopies = 4;       // of an axis of a tile
constexpr int64_t kMostPartials = 4;     // sums of a batch that a thread holds for one
constexpr int64_t kStepsTogether = 4;    // products of fragments that are written out

// The axes of columns, of which a thread has two neighbours and four threads have eight: one axis, or its inner and
// outer part where numbers lie by pairs.
struct Columns {
  Ref pairs, fours;
};

// Outputs where the unit leaves them, if `rows` and `lane` (which may be the same) are axes of a matrix that the
// columns multiply with: 8 rows are in threads and as many in copies. Leaves in `rows` what others may take.
bool try_fragments(OptChoice& c, const MatrixUnit& unit, Columns columns, Ref& rows, Ref lane) {
  const bool are_same = rows == lane;
  Ref& fours = columns.pairs == columns.fours ? columns.pairs : columns.fours;
  if (!take_part(c, OptKind::Upcast, columns.pairs, 2) || !take_part(c, OptKind::Local, fours, kFragmentPlaces))
    return false;
  if (!take_part(c, OptKind::Local, lane, kFragmentGroups)) return false;
  if (are_same) rows = lane;
  choose_dot(c);
  unroll_words(c, kStepsTogether * words_at_once(unit));
  return take_part(c, OptKind::Matrix, rows, 2);
}

// The same in a nest of a tile, with two neighbouring rows in each thread, which loads the words of both at once.
bool try_neighbours(OptChoice& c, const MatrixUnit& unit, const Columns& columns, Ref lane) {
  if (Ref pairs = pairs_of_rows(c)) return lane != pairs && try_fragments(c, unit, columns, pairs, lane);
  auto [rows, outer] = split_axis(c, lane, 2);
  return rows && outer && try_fragments(c, unit, columns, rows, outer);
}

bool is_of_rows(Ref load) {
  const Refs ranges = ranges_of(LoadView(load).offset);
  return std::any_of(ranges.begin(), ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::MatrixRow; });
}

// A loop over so many tokens, or a multiple, that is left: those multiply with the same words of the rows. Null if
// there is none.
Ref tokens_left(const OptChoice& c, int64_t count) {
  Refs of_rows;
  for (Ref n : loads_of_bytes(c.stores))
    if (is_of_rows(n)) of_rows.push_back(LoadView(n).offset);
  for (Ref r : c.output_axes()) {
    const auto depends = [&](Ref offset) { return depends_on(offset, r); };
    if (kind_of(r) == RangeKind::Loop && known_divisor(RangeView(r).size) % count == 0 &&
        std::none_of(of_rows.begin(), of_rows.end(), depends))
      return r;
  }
  return Ref();
}

bool is_of_known_length(Ref axis) { return kind_of(axis) == RangeKind::Loop && const_int(RangeView(axis).size); }

// Positions up to a limit; null where there are none.
Ref limited_axis(const OptChoice& c) {
  for (Ref r : c.output_axes())
    if (kind_of(r) == RangeKind::Loop && !const_int(RangeView(r).size)) return r;
  return Ref();
}

// A sum of which a thread would hold too many partial sums; null if there is none.
Ref sum_to_group(const OptChoice& c) {
  for (Ref n : reductions_of(c.stores))
    if (has_order(n) && partial_registers(n) > kMostPartials && last_partials(n)) return last_partials(n);
  return Ref();
}

// Warps of a block that share partial sums: as many as leave few to a thread.
int64_t warps_of_partials(const OptChoice& c) {
  const Ref axis = sum_to_group(c);
  return axis && RangeView(axis).count() > kMostWarps * kMostPartials ? kMostWarpsOfFew : kMostWarps;
}

// Of an odd number of partial sums, or a multiple of it, few warps would leave too many to a thread: as many warps as
// there are sums take one each, if a block has room for them.
bool group_all(OptChoice& c, Ref axis) {
  const int64_t count = RangeView(axis).count(), odd = count / (count & -count);
  return odd > kMostPartials && count * c.machine.warp_threads <= c.machine.block_threads &&
         c.try_opt({OptKind::Group, c.id_of(axis), count});
}

// Warps share the partial sums of long sums, of which few are left to a thread. Returns how many warps are left.
int64_t group_partials(OptChoice& c, int64_t warps) {
  while (const Ref axis = sum_to_group(c)) {
    if (group_all(c, axis)) return 1;
    int64_t n = std::min(warps, RangeView(axis).count());
    while (n > 1 && !c.try_opt({OptKind::Group, c.id_of(axis), n})) n /= 2;
    if (n <= 1) break;
    warps /= n;
  }
  return warps;
}

Refs ordered_sums(const OptChoice& c) {
  Refs sums = reductions_of(c.stores);
  std::erase_if(sums, [](Ref n) { return !has_order(n); });
  return sums;
}

// Sums of superblocks have those of their groups inside.
bool are_nested(const Refs& sums) {
  return std::any_of(sums.begin(), sums.end(), [&](Ref n) {
    return std::any_of(sums.begin(), sums.end(), [&](Ref m) { return m != n && depends_on(n, m); });
  });
}

int64_t sums_of_thread(const OptChoice& c) {
  int64_t sums = 0;
  for (Ref n : ordered_sums(c)) sums += partial_registers(n);
  return sums;
}

// Of a batch, whose sums are in as many parts as those of one token: warps share these, and then rows, if that leaves a
// block to each processor. Where it leaves many, as experts do, blocks are small, and a warp multiplies the words of
// its tokens with two blocks of rows, unless it has two products.
void share_out_batch(OptChoice& c, Ref rows) {
  const auto leaves_enough = [&](int64_t n) { return c.blocks_left() >= n * c.machine.tasks; };
  const Refs sums = ordered_sums(c);
  const bool are_many = leaves_enough(kManyBlocks) && !are_nested(sums);
  int64_t warps = group_partials(c, are_many ? kFewWarps : warps_of_partials(c));
  c.has_room_for_rounds = !are_many || sums_of_thread(c) <= kMostPartials;
  Ref tokens = tokens_left(c, 2);
  if (tokens && leaves_enough(2)) take_part(c, OptKind::Upcast, tokens, 2);
  if (rows && are_many && sums.size() == 1) take_part(c, OptKind::Upcast, rows, 2);
  for (; rows && warps > 1; warps /= 2)
    if (leaves_enough(warps) && known_divisor(RangeView(rows).size) % warps == 0 &&
        take_part(c, OptKind::Local, rows, warps))
      break;
}

// Warps that `size` can be shared out to.
int64_t warps_for(int64_t size) {
  int64_t warps = kMostWarpsOfRows;
  while (size % warps != 0) --warps;
  return warps;
}

// Blocks of 16 rows to warps, two to each where the block then has more of them.
void share_out_rows(OptChoice& c, Ref rows) {
  if (!rows) return;
  const int64_t size = known_divisor(RangeView(rows).size), alone = warps_for(size);
  if (size % 2 == 0 && 2 * warps_for(size / 2) > alone) take_part(c, OptKind::Upcast, rows, 2);
  if (!rows) return;
  const int64_t warps = warps_for(known_divisor(RangeView(rows).size));
  if (warps > 1) take_part(c, OptKind::Local, rows, warps);
}

// Further tokens share the words of the rows; or rows those of the tokens, where warps have enough left.
void share_out_rest(OptChoice& c, Ref rows) {
  if (!c.is_part_of_tile() && c.blocks_left() > 0) return share_out_batch(c, rows);
  const bool has_few = c.is_part_of_tile() && !chunk_range(c.stores);
  for (int64_t n = has_few ? kMostBlocksOfColumns : 2; n > 1; --n)
    if (Ref tokens = tokens_left(c, n); tokens && take_part(c, OptKind::Upcast, tokens, n)) {
      c.blocks_of_columns = n;
      break;
    }
  if (!c.is_part_of_tile()) return share_out_rows(c, rows);
  if (!has_few && rows && known_divisor(RangeView(rows).size) % (2 * kMostWarps) == 0)
    take_part(c, OptKind::Upcast, rows, 2);
  int64_t warps = has_few ? kMostWarpsOfFew : kMostWarps;
  const auto share_out = [&](Ref axis) {
    for (int64_t n = warps; axis && n > 1; n /= 2)
      if (known_divisor(RangeView(axis).size) % n == 0 && take_part(c, OptKind::Local, axis, n))
        return void(warps /= n);
  };
  share_out(rows);
  for (Ref axis : c.output_axes())
    if (is_of_known_length(axis)) share_out(axis);
  // What is left goes side by side, so that more loads are under way.
  for (Ref axis : c.output_axes())
    if (is_of_known_length(axis)) take_part(c, OptKind::Upcast, axis, std::gcd(RangeView(axis).count(), kMostCopies));
}

// Tokens that lie side by side as a fragment wants them (model/activation_layout.h): the two words that each thread has
// of one, then those of the next one.
bool lies_for_fragments(const OptChoice& c, Ref axis) {
  if (!is_const(RangeView(axis).size, kFragmentGroups)) return false;
  for (Ref n : loads_of_bytes(c.stores))
    if (stride(LoadView(n).offset, axis) == 2 * kFragmentPlaces * kBytesOfWord) return true;
  return false;
}

// Columns of a product: tokens of a prompt, an axis of unknown length; places of experts' tiles that are as many as
// there happen to be; tokens or heads of a tile of an attention; or tokens of a batch.
bool are_columns(const OptChoice& c, Ref axis) {
  if (kind_of(axis) != RangeKind::Loop || known_divisor(RangeView(axis).size) % (2 * kFragmentPlaces) != 0)
    return false;
  if (c.is_part_of_tile()) {
    const auto count = const_int(RangeView(axis).size);
    return count && *count <= (chunk_range(c.stores) ? 1 : kMostBlocksOfColumns) * 2 * kFragmentPlaces;
  }
  const Refs axes = c.output_axes();
  return lies_for_fragments(c, axis) ||
         std::any_of(axes.begin(), axes.end(), [](Ref r) { return !is_const(RangeView(r).size); });
}

std::vector<Columns> columns_of(const OptChoice& c) {
  std::vector<Columns> found;
  const Refs axes = c.output_axes();
  for (Ref axis : axes)
    if (are_columns(c, axis)) found.push_back({axis, axis});
  const auto has_size = [](Ref axis, int64_t n) {
    return kind_of(axis) == RangeKind::Loop && is_const(RangeView(axis).size, n);
  };
  for (size_t i = 1; i < axes.size(); ++i)
    if (c.is_part_of_tile() && has_size(axes[i - 1], kFragmentPlaces) && has_size(axes[i], 2))
      found.push_back({axes[i], axes[i - 1]});
  return found;
}

}  // namespace

bool choose_fragments(OptChoice& c) {
  const MatrixUnit* unit = unit_for_bytes(c.machine);
  if (!unit || unit->loads_operands) return false;
  const Refs axes = c.output_axes(), stores = c.stores;
  // Threads side by side want words side by side: of the matrix's axes, the innermost first.
  const Refs lanes(axes.rbegin(), axes.rend());
  const std::vector<Opt> opts = c.opts;
  for (const Columns& columns : columns_of(c))
    for (Ref lane : lanes) {
      const auto is_taken = [&](Ref axis) { return axis == columns.pairs || axis == columns.fours; };
      if (is_taken(lane)) continue;
      if (c.is_part_of_tile() && try_neighbours(c, *unit, columns, lane)) {
        share_out_rest(c, limited_axis(c));
        return true;
      }
      c.stores = stores, c.opts = opts;
      for (Ref rows : axes) {
        if (is_taken(rows)) continue;
        Ref rows_left = rows;
        if (try_fragments(c, *unit, columns, rows_left, lane)) {
          share_out_rest(c, rows_left);
          return true;
        }
        c.stores = stores, c.opts = opts;
      }
    }
  return false;
}

}  // namespace smelt
