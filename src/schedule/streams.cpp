#include "schedule/streams.h"

#include <algorithm>
#include <optional>

#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/tensor.h"
#include "graph/views.h"

namespace smelt {
namespace {

// As many terms are added one after the other; more may be cut into partial sums (codegen/sum_order.h), which are not
// those of a sum whose terms are sums.
constexpr int64_t kMostStreams = 15;

bool has_reduction(Ref n) {
  const Refs nodes = toposort(n);
  return std::any_of(nodes.begin(), nodes.end(), [](Ref x) { return is_reduce(x->op); });
}

// Whether the terms of neighbouring iterations lie in different matrices: a loaded index, times the bytes of a matrix.
bool chooses_by_memory(Ref term, Ref range) {
  const Refs nodes = toposort(term);
  return std::any_of(nodes.begin(), nodes.end(), [&](Ref load) {
    if (load->op != Op::Load || LoadView(load).buffer->op == Op::Local) return false;
    const Refs address = toposort(LoadView(load).offset);
    return std::any_of(address.begin(), address.end(),
                       [&](Ref x) { return x->op == Op::Load && depends_on(LoadView(x).offset, range); });
  });
}

bool is_sum_over_streams(Ref n) {
  if (n->op != Op::ReduceSum) return false;
  const ReduceView sum(n);
  return sum.ranges.size() == 1 && has_reduction(sum.values[0]) && chooses_by_memory(sum.values[0], sum.ranges[0]);
}

// The only such sum below the value, if it is computed once for each element.
Ref sum_over_streams(Ref value) {
  Ref found;
  for (Ref n : toposort(value)) {
    if (!is_sum_over_streams(n)) continue;
    if (found) return Ref();
    found = n;
  }
  if (!found) return Ref();
  // Inside of another reduction it has terms for each iteration of that one.
  for (Ref n : toposort(value))
    if (is_reduce(n->op) && n != found && depends_on(n, found)) return Ref();
  return found;
}

// Elements that ranges of known sizes stand for.
std::optional<int64_t> count_of(const Refs& ranges) {
  int64_t count = 1;
  for (Ref r : ranges) {
    const auto n = const_int(RangeView(r).size);
    if (!n || __builtin_mul_overflow(count, *n, &count)) return std::nullopt;
  }
  return count;
}

// The factor of a term that is a sum. The other one is applied to what was kept of it, as where nothing is kept: a
// product and the addition behind it are one operation.
Ref factor_of_sums(Ref term) {
  if (term->op != Op::Mul) return term;
  const auto [x, y] = BinaryView(term);
  if (has_reduction(x) == has_reduction(y)) return term;
  return has_reduction(x) ? x : y;
}

Ref flat(const Refs& ranges) {
  Ref index = constant(0);
  for (Ref r : ranges) index = simplify(index * RangeView(r).size + r);
  return index;
}

}  // namespace

Refs one_stream_at_a_time(Ref nest, const Machine& machine, const std::function<Ref(DType, int64_t bytes)>& new_local) {
  const StoreView store(stores_of(nest)[0]);
  if (machine.has_threads()) return {nest};  // each thread reads another stream in any case
  if (stores_of(nest).size() != 1 || store.buffer->op == Op::Local || store.ranges.empty()) return {nest};
  const Ref sum = sum_over_streams(store.value);
  if (!sum) return {nest};
  const Ref term = ReduceView(sum).values[0], part = factor_of_sums(term), streams = ReduceView(sum).ranges[0];
  if (RangeView(streams).size->max > kMostStreams) return {nest};
  const Ref rows = store.ranges.back();
  const RangeView row_range(rows);
  Refs elements{streams};
  elements.insert(elements.end(), store.ranges.begin(), store.ranges.end());
  const auto count = count_of(elements);
  const int64_t size = size_of(sum->dtype);
  if (!count || *count * size > machine.local_bytes) return {nest};
  const int64_t n_rows = *const_int(row_range.size);
  const int64_t task_rows = machine.task_rows;
  if (n_rows == task_rows || n_rows % task_rows != 0) return {nest};

  const int64_t number = row_range.number;
  const Ref tasks = make_range(outer_part(number), simplify(row_range.size / task_rows), RangeKind::Tile);
  const Ref row = make_range(inner_part(number), constant(task_rows), RangeKind::Loop);
  const Ref sweep = with_kind(streams, RangeKind::Sweep);
  const Ref parts = new_local(sum->dtype, *count * size);
  const Ref at = simplify(flat(elements) * size);
  const Replacements in_tasks{{rows, simplify(tasks * task_rows + row)}};
  Replacements in_sweeps = in_tasks;
  in_sweeps[streams] = sweep;

  // Other loops of the nest are inside of the tasks.
  const auto nest_of = [&](Ref buffer, Ref offset, Ref value, const Replacements& by, Refs loops) {
    loops.insert(loops.end(), store.ranges.begin(), store.ranges.end() - 1);
    loops.push_back(row);
    return sink({make_store(buffer, substitute(offset, by), substitute(value, by), loops)});
  };
  const Ref kept = with_sources(sum, {substitute(term, {{part, make_load(sum->dtype, parts, at)}}), streams});
  return {nest_of(parts, at, part, in_sweeps, {sweep, tasks}),
          nest_of(store.buffer, store.offset, substitute(store.value, {{sum, kept}}), in_tasks, {tasks})};
}

}  // namespace smelt
