// In which order loops stand, and which of them become tasks for the workers.
#include <algorithm>

#include "codegen/loop_order.h"
#include "codegen/opt_choice.h"
#include "graph/rules_algebra.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

// Terms of a sum, symbolic sizes at their greatest.
double terms_of(const Refs& ranges) {
  double terms = 1;
  for (Ref r : ranges) terms *= static_cast<double>(RangeView(r).most());
  return terms;
}

// Those of all its values in an iteration of the axis.
double terms_in_iteration(const OptChoice& c, Ref reduce, Ref axis) {
  double terms = terms_of(own_ranges(reduce));
  for (Ref r : c.output_axes())
    if (r != axis && kind_of(r) != RangeKind::Task && depends_on(reduce, r)) terms *= terms_of({r});
  return terms;
}

constexpr double kLittleAgain = 1.0 / 64;  // of what an iteration does

// Tasks in which the workers would do the same again are no tasks: a sum that does not depend on the axis, but on
// those outside of it, belongs to all of its iterations. Where it is next to nothing, as what the columns of a softmax
// have in common, more tasks are worth it.
bool repeats_sums(const OptChoice& c, Ref axis) {
  double again = 0, own = 0;
  for (Ref reduce : reductions_of(c.stores)) {
    const Refs ranges = ranges_of(reduce);
    if (depends_on(reduce, axis))
      own += terms_in_iteration(c, reduce, axis);
    else if (std::any_of(ranges.begin(), ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::Task; }))
      again += terms_in_iteration(c, reduce, axis);
  }
  return again > 0 && (c.machine.has_threads() || again > own * kLittleAgain);
}

// Each task costs divisions, which is more than some of them do. Where iterations differ in work, as tiles of experts,
// some may have none.
int64_t least_iterations(const OptChoice& c, Ref axis) {
  return is_ragged(c.stores, axis) ? 1 : std::max<int64_t>(RangeView(axis).size->min, 1);
}

}  // namespace

void choose_order(OptChoice& c) {
  for (const Opt& opt : choose_loop_order(c.stores, c.machine.cache_bytes)) c.try_opt(opt);
  if (!c.machine.has_threads()) return;
  // Blocks take tasks in turn. Those that have nothing to do, at the end of a ragged axis, then come last for all.
  for (Ref axis : c.output_axes())
    if (kind_of(axis) == RangeKind::Loop && is_ragged(c.stores, axis)) {
      c.try_opt({OptKind::Front, c.id_of(axis)});
      break;
    }
}

void choose_tasks(OptChoice& c) {
  int64_t tasks = 1;
  while (tasks < c.machine.tasks) {
    const Refs axes = c.output_axes();
    const auto next = std::find_if(axes.begin(), axes.end(), [](Ref r) { return kind_of(r) == RangeKind::Loop; });
    if (next == axes.end() || repeats_sums(c, *next)) break;
    const int64_t iterations = least_iterations(c, *next);
    if (!c.try_opt({OptKind::Task, c.id_of(*next)})) break;
    tasks *= iterations;
  }
}

}  // namespace smelt
