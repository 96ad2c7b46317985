// Products of halves by a unit that loads both sides from memory (AMX): all terms are written out, as the unit goes
// over them in a loop of its own, and the same rows are multiplied with several blocks of the other side.
#include <algorithm>

#include "codegen/matrix_rows.h"
#include "codegen/opt_choice.h"
#include "codegen/products_of_halves.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

Ref sum_of_halves(const OptChoice& c) {
  for (Ref n : reductions_of(c.stores))
    if (adds_halves(n) && ReduceView(n).values[0]->op == Op::Mul) return n;
  return Ref();
}

// Whether the halves of a word, of the side that is not in lanes, are neighbours along a range.
bool has_words(Ref sum, Ref range) {
  const auto [x, y] = BinaryView(ReduceView(sum).values[0]);
  const auto are_neighbours = [&](Ref side) {
    return side->op == Op::Load && stride(LoadView(side).offset, range) == kBytesOfHalf;
  };
  return are_neighbours(operand_of(x)) || are_neighbours(operand_of(y));
}

Refs loops_of(Ref sum) {
  Refs loops = own_ranges(sum);
  std::erase_if(loops, [](Ref r) { return kind_of(r) != RangeKind::Reduce; });
  return loops;
}

bool write_words_out(OptChoice& c) {
  const Refs loops = loops_of(sum_of_halves(c));
  const auto words = std::find_if(loops.begin(), loops.end(), [&](Ref r) { return has_words(sum_of_halves(c), r); });
  if (words == loops.end() || !c.try_opt({OptKind::Unroll, c.id_of(*words), kBytesOfWord / kBytesOfHalf})) return false;
  // What is left of a loop whose size is not known is a condition: a tile may have no tokens.
  for (Ref loop : loops_of(sum_of_halves(c))) {
    const int64_t n = known_divisor(RangeView(loop).size);
    if (n > 1 && !c.try_opt({OptKind::Unroll, c.id_of(loop), n})) return false;
  }
  return true;
}

// A word of each lane is two halves, which are not side by side with those of the next one.
bool take_lanes(OptChoice& c, int64_t lanes) {
  const Refs axes = c.output_axes();
  return !axes.empty() && c.try_opt({OptKind::Local, c.id_of(axes.back()), lanes});
}

// As many values of an output axis as there are, at most `most`.
bool take_axis(OptChoice& c, int64_t most) {
  for (Ref axis : c.output_axes()) {
    if (kind_of(axis) != RangeKind::Loop) continue;
    const int64_t n = greatest_divisor(RangeView(axis).size, most);
    if (n > 1 && c.try_opt({OptKind::Matrix, c.id_of(axis), n})) return true;
  }
  return false;
}

}  // namespace

bool choose_products_of_halves(OptChoice& c) {
  const MatrixUnit* unit = unit_for_halves(c.machine);
  if (!unit || !unit->loads_operands || !sum_of_halves(c)) return false;
  const Refs stores = c.stores;
  const std::vector<Opt> opts = c.opts;
  if (!take_lanes(c, unit->n) || !write_words_out(c) || !take_axis(c, unit->m)) {
    c.stores = stores, c.opts = opts;
    return false;
  }
  take_axis(c, kMostMatrixBlocks);
  return true;
}

}  // namespace smelt
