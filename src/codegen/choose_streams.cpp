// How many rows of a matrix are read side by side where one token multiplies with it.
#include <algorithm>

#include "codegen/opt_choice.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

// Of each processor: with one or two, a slow core, or a task more than comes out even, is all that the others wait for
// (24 tasks of 16 cores take as long as 32).
constexpr int64_t kFewestTasks = 4;

// Bytes from one step of the axis to the next in what lanes read of narrow numbers: in a matrix of weights.
int64_t stride_in_weights(const OptChoice& c, Ref axis) {
  int64_t greatest = 0;
  for (Ref reduce : reductions_of(c.stores))
    for (Ref n : toposort(reduce))
      if (n->op == Op::Load && size_of(n->dtype) < 4)
        if (const auto [buffer, offset] = LoadView(n); buffer->op == Op::Param && varies_in_lanes(offset))
          greatest = std::max(greatest, stride(offset, axis).value_or(0));
  return greatest;
}

struct Written {
  int64_t sums = 0;   // that the nest makes
  int64_t terms = 1;  // of a sum, in the body of a loop
};

Written written_of(const OptChoice& c) {
  Written w;
  for (Ref reduce : reductions_of(c.stores)) w.sums += !holds_reduction(reduce);
  for (Ref r : axes_of(c.stores))
    if (!is_output_axis(c.stores, r) && kind_of(r) == RangeKind::Unroll) w.terms *= RangeView(r).count();
  return w;
}

}  // namespace

// A product of one token waits for its matrix. Where a processor's prefetchers follow several streams, groups of rows
// read side by side come in faster than one group after the other; where they follow one, they lose it (measured: 1.19
// times the speed of a whole token on a Xeon, less than half of a kernel's on Zen 4). Every processor keeps some tasks.
void choose_streams(OptChoice& c) {
  if (c.machine.streams < 2 || c.machine.has_threads() || !c.has_local || c.is_block || c.is_part_of_tile()) return;
  const Refs axes = c.output_axes();
  if (std::any_of(axes.begin(), axes.end(), is_copies)) return;  // they share what is read: several tokens
  const auto rows = std::max_element(axes.begin(), axes.end(),
                                     [&](Ref a, Ref b) { return stride_in_weights(c, a) < stride_in_weights(c, b); });
  if (rows == axes.end() || kind_of(*rows) != RangeKind::Loop) return;
  const auto size = const_int(RangeView(*rows).size);
  if (!size || stride_in_weights(c, *rows) < c.machine.line_bytes) return;
  int64_t all = *size;  // with other axes that become tasks, such as chosen experts
  for (Ref axis : axes)
    if (axis != *rows && kind_of(axis) == RangeKind::Loop) all *= const_int(RangeView(axis).size).value_or(1);
  const Written written = written_of(c);
  for (int64_t n = c.machine.streams; n > 1; n /= 2) {
    const bool has_room = n * written.sums <= c.machine.sums && n * written.terms <= c.machine.body_terms;
    const bool has_tasks = *size >= n * c.machine.processors && all >= n * kFewestTasks * c.machine.processors;
    if (has_room && has_tasks && c.try_opt({OptKind::Upcast, c.id_of(*rows), n})) return;
  }
}

}  // namespace smelt
