// How a product of matrices is computed: over panels, as products of small matrices, as blocks of sums.
#include <algorithm>
#include <unordered_set>

#include "codegen/matrix_cost.h"
#include "codegen/matrix_rows.h"
#include "codegen/opt_choice.h"
#include "codegen/panel.h"
#include "codegen/sum_order.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

std::vector<int64_t> block_sizes(Ref axis, int64_t most) {
  std::vector<int64_t> sizes;
  const int64_t n = known_divisor(RangeView(axis).size);
  for (int64_t d = 1; d <= most; ++d)
    if (n % d == 0) sizes.push_back(d);
  return sizes;
}

// The number of rows with which products of matrices take the fewest cycles. False: sums of words take no more.
bool add_rows(OptChoice& c, const MatrixUnit& unit) {
  const LaneRules rules = lane_rules(c.machine);
  Opt best{OptKind::Matrix};
  double best_cycles = 1;  // of those that sums of words take
  for (Ref axis : c.output_axes()) {
    if (kind_of(axis) != RangeKind::Loop) continue;
    for (int64_t n : block_sizes(axis, unit.m)) {
      const Opt opt{OptKind::Matrix, c.id_of(axis), n};
      if (n < 2) continue;
      const OptResult result = try_opt(c.stores, opt, rules);
      if (!result) continue;
      double tiles = 0, dots = 0;
      for (const MatrixShape& shape : matrix_products(result.stores, rules))
        tiles += tile_cycles(shape, unit), dots += dot_cycles(shape, c.machine);
      if (tiles / dots < best_cycles) best = opt, best_cycles = tiles / dots;
    }
  }
  return best_cycles < 1 && c.try_opt(best);
}

// Numbers that a term is made of, without those that only say where others are.
Refs operands_of(Ref term) {
  Refs loads, stack{term};
  std::unordered_set<const Node*> seen;
  while (!stack.empty()) {
    const Ref n = stack.back();
    stack.pop_back();
    if (!seen.insert(n.get()).second) continue;
    if (n->op == Op::Load) loads.push_back(n);
    if (n->op != Op::Load && !is_reduce(n->op) && n->op != Op::Range)
      stack.insert(stack.end(), n->src.begin(), n->src.end());
  }
  return loads;
}

double size_of_sum(Ref reduce) {
  double size = 1;
  for (Ref r : own_ranges(reduce)) size *= static_cast<double>(RangeView(r).most());
  return size;
}

Ref largest_sum(const OptChoice& c) {
  Ref largest;
  for (Ref reduce : reductions_of(c.stores))
    if (reduce->op == Op::ReduceSum && !holds_reduction(reduce) &&
        (!largest || size_of_sum(reduce) > size_of_sum(largest)))
      largest = reduce;
  return largest;
}

// A sum, and those whose terms it is part of, are under way at once.
int64_t sums_around(const OptChoice& c, Ref sum) {
  int64_t sums = 0;
  for (Ref reduce : reductions_of(c.stores)) sums += depends_on(reduce, sum);
  return std::max<int64_t>(sums, 1);
}

struct Block {
  Ref a, b;
  int64_t na = 1, nb = 1;
  double loads = 1e9;  // for a term of one sum
};

// Those of narrow types are conversions, too.
double loads_per_sum(const Refs& operands, Ref a, int64_t na, Ref b, int64_t nb) {
  double loads = 0;
  for (Ref x : operands) {
    double each = size_of(x->dtype) < 4 ? 2 : 1;
    if (depends_on(LoadView(x).offset, a)) each *= static_cast<double>(na);
    if (a != b && depends_on(LoadView(x).offset, b)) each *= static_cast<double>(nb);
    loads += each;
  }
  return loads / static_cast<double>(na * nb);
}

}  // namespace

// As many words as a product may have.
void unroll_words(OptChoice& c, int64_t words) {
  for (bool again = true; again;) {
    again = false;
    for (Ref reduce : reductions_of(c.stores)) {
      int64_t written = 1;
      Refs loops;
      bool packed = false;
      for (Ref r : own_ranges(reduce)) {
        packed |= kind_of(r) == RangeKind::Byte;
        if (kind_of(r) == RangeKind::Unroll) written *= RangeView(r).count();
        if (kind_of(r) == RangeKind::Reduce) loops.push_back(r);
      }
      if (!packed || loops.empty()) continue;
      const int64_t most = words / written, size = known_divisor(RangeView(loops.back()).size);
      for (int64_t n = std::min(most, size); n > 1 && !again; --n)
        if (size % n == 0) again = c.try_opt({OptKind::Unroll, c.id_of(loops.back()), n});
      if (again) break;
    }
  }
}

namespace {

constexpr int64_t kMostRowsOfHalves = 128;

// Halves come from the second-level cache, and more rows read their tokens less often; but each worker should have a
// panel of its own to make.
int64_t most_rows(const Panel& panel, const Machine& machine) {
  if (!panel.holds_halves) return machine.panel_rows;
  int64_t rows = kMostRowsOfHalves;
  if (panel.jumps) return rows;
  while (rows > kPanelLanes * kMostMatrixBlocks && panel.rows / rows < machine.processors) rows /= 2;
  return rows;
}

// Long rows take more of the cache: as two vectors, which load less than one for as many products (choose_copies.cpp),
// and where there are no registers for two, as the fewest rows of a panel, which is better than none.
int64_t most_bytes(const Panel& panel, int64_t rows, const Machine& machine) {
  if (panel.holds_halves) return machine.l2_bytes * 5 / 8;
  const int64_t of_long_rows = holds_two_vectors(machine) ? 2 * kPanelLanes : kPanelLanes;
  return rows == of_long_rows ? std::max(machine.panel_bytes, machine.l2_bytes * 3 / 4) : machine.panel_bytes;
}

}  // namespace

// Weights are unpacked once for all tokens of a prompt. Panels of experts serve some thirty tokens each, which does
// not pay for making them (measured: 0.75 to 1.1 times the speed with 512 tokens, half of it with 64), but where tiles
// fill a matrix unit. Halves, whose sums stay in the unit for whole rows, come from the second-level cache.
void choose_panel(OptChoice& c) {
  const MatrixUnit* unit = unit_for_bytes(c.machine);
  for (Ref axis : c.output_axes()) {
    if (is_const(RangeView(axis).size)) continue;
    const Panel panel = panel_of(c.stores, c.id_of(axis));
    if (panel.bytes_of_row == 0 || (panel.jumps && (!unit || panel.shared_by < unit->m))) continue;
    for (int64_t rows = most_rows(panel, c.machine); rows >= kPanelLanes; rows /= 2)
      if (rows * panel.bytes_of_row <= most_bytes(panel, rows, c.machine) &&
          c.try_opt({OptKind::Panel, c.id_of(axis), rows}))
        return;
  }
}

// Sums of bytes of several rows as products of matrices, where that takes fewer cycles than a sum each.
bool choose_matrix(OptChoice& c) {
  const MatrixUnit* unit = unit_for_bytes(c.machine);
  if (!unit || !unit->loads_operands || !c.has_local) return false;
  const Refs stores = c.stores;
  const std::vector<Opt> opts = c.opts;
  unroll_words(c, kMatrixSteps * words_at_once(*unit));
  if (add_rows(c, *unit)) {
    choose_unroll(c);
    choose_unroll_of_bytes(c);
    return true;
  }
  c.stores = stores, c.opts = opts;
  return false;
}

// Floats of both sides serve many outputs, as those of a router's matrix and of the tokens of a prompt do: then they
// come from the caches. Rows of a matrix that one token reads come from memory, one after the other.
bool is_product_of_reused(const OptChoice& c) {
  const Ref product = largest_sum(c);
  if (c.has_local || !product || !is_float(product->dtype)) return false;
  const Refs axes = c.output_axes(), operands = operands_of(ReduceView(product).values[0]);
  return operands.size() >= 2 && std::all_of(operands.begin(), operands.end(), [&](Ref x) {
           return is_float(x->dtype) && std::any_of(axes.begin(), axes.end(), [&](Ref axis) {
                    return kind_of(axis) == RangeKind::Loop && !depends_on(LoadView(x).offset, axis);
                  });
         });
}

// What a tile works on comes from the caches, so its products are those of small matrices: a block of sums in
// registers, as wide along two output axes as saves most loads.
void choose_block(OptChoice& c) {
  const Ref product = largest_sum(c);
  if (!product) return;
  const Refs operands = operands_of(ReduceView(product).values[0]);
  if (operands.size() < 2) return;
  Refs axes = c.output_axes();
  std::erase_if(axes, [](Ref r) { return kind_of(r) != RangeKind::Loop; });
  const int64_t most = c.machine.registers * 5 / 8 / (sums_around(c, product) * partial_registers(product));
  Block best;
  for (Ref a : axes)
    for (Ref b : axes)
      for (int64_t na : block_sizes(a, most))
        for (int64_t nb : a == b ? std::vector<int64_t>{1} : block_sizes(b, most / na)) {
          const Block block{a, b, na, nb, loads_per_sum(operands, a, na, b, nb)};
          if (block.loads < best.loads) best = block;
        }
  c.is_block = best.na * best.nb > 1;
  if (best.na > 1) c.try_opt({OptKind::Upcast, c.id_of(best.a), best.na});
  if (best.nb > 1) c.try_opt({OptKind::Upcast, c.id_of(best.b), best.nb});
}

}  // namespace smelt
