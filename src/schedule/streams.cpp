#include "schedule/streams.h"

#include <algorithm>
#include <optional>

#include "graph/range_kind.h"
#include "graph/rules_algebra.h"
#include "graph/tensor.h"

namespace smelt {
namespace {

// Neighbouring results of a task: vectors of all machines divide it.
constexpr int64_t kRowsPerTask = 16;

Refs ranges_of_store(Ref store) { return Refs(store->src.begin() + 3, store->src.end()); }

bool has_reduction(Ref n) {
  const Refs nodes = toposort(n);
  return std::any_of(nodes.begin(), nodes.end(), [](Ref x) { return is_reduce(x->op); });
}

// Whether memory says where the terms of neighbouring steps are: an index, times what a whole matrix takes.
bool chooses_by_memory(Ref term, Ref range) {
  const Refs nodes = toposort(term);
  return std::any_of(nodes.begin(), nodes.end(), [&](Ref load) {
    if (load->op != Op::Load || load->src[0]->op == Op::Local) return false;
    const Refs address = toposort(load->src[1]);
    return std::any_of(address.begin(), address.end(),
                       [&](Ref x) { return x->op == Op::Load && depends_on(x->src[1], range); });
  });
}

bool is_sum_over_streams(Ref n) {
  if (n->op != Op::ReduceSum || n->src.size() != 2) return false;
  return has_reduction(n->src[0]) && chooses_by_memory(n->src[0], n->src[1]);
}

// The only such sum below the value, if it is computed once for each element.
Ref sum_over_streams(Ref store) {
  Ref found;
  for (Ref n : toposort(store->src[2])) {
    if (!is_sum_over_streams(n)) continue;
    if (found) return Ref();
    found = n;
  }
  if (!found) return Ref();
  // Inside of another reduction it has terms for each of its steps.
  for (Ref n : toposort(store->src[2]))
    if (is_reduce(n->op) && n != found && depends_on(n, found)) return Ref();
  return found;
}

// Elements that ranges of known sizes stand for.
std::optional<int64_t> count_of(const Refs& ranges) {
  int64_t count = 1;
  for (Ref r : ranges) {
    const auto n = const_int(r->src[0]);
    if (!n || __builtin_mul_overflow(count, *n, &count)) return std::nullopt;
  }
  return count;
}

Ref flat(const Refs& ranges) {
  Ref index = constant(0);
  for (Ref r : ranges) index = simplify(index * r->src[0] + r);
  return index;
}

}  // namespace

Refs one_stream_at_a_time(Ref nest, int64_t on_chip_bytes,
                          const std::function<Ref(DType, int64_t bytes)>& new_local) {
  const Ref store = nest->src[0];
  if (nest->src.size() != 1 || store->src[0]->op == Op::Local || store->src.size() == 3)
    return {nest};
  const Ref sum = sum_over_streams(store);
  if (!sum) return {nest};
  const Refs loops = ranges_of_store(store);
  const Ref streams = sum->src[1], rows = loops.back();
  Refs elements{streams};
  elements.insert(elements.end(), loops.begin(), loops.end());
  const auto count = count_of(elements);
  const int64_t size = size_of(sum->dtype);
  if (!count || *count * size > on_chip_bytes) return {nest};
  const int64_t n_rows = *const_int(rows->src[0]);
  if (n_rows == kRowsPerTask || n_rows % kRowsPerTask != 0) return {nest};

  const Ref tasks =
      make_range(2 * rows->arg.i, simplify(rows->src[0] / kRowsPerTask), RangeKind::Tile);
  const Ref row = make_range(2 * rows->arg.i + 1, constant(kRowsPerTask), RangeKind::Loop);
  const Ref pass = make_range(streams->arg.i, streams->src[0], RangeKind::Pass);
  const Ref terms = new_local(sum->dtype, *count * size);
  const Ref at = simplify(flat(elements) * size);
  const Replacements in_tasks{{rows, simplify(tasks * kRowsPerTask + row)}};
  Replacements in_passes = in_tasks;
  in_passes[streams] = pass;

  // Other loops of the nest are inside of the tasks.
  const auto nest_of = [&](Ref buffer, Ref offset, Ref value, const Replacements& by, Refs outer) {
    Refs src{buffer, substitute(offset, by), substitute(value, by)};
    src.insert(src.end(), outer.begin(), outer.end());
    src.insert(src.end(), loops.begin(), loops.end() - 1);
    src.push_back(row);
    return sink({make(Op::Store, DType::Void, std::move(src))});
  };
  const Ref kept =
      make(Op::ReduceSum, sum->dtype, {make(Op::Load, sum->dtype, {terms, at}), streams}, sum->arg);
  return {nest_of(terms, at, sum->src[0], in_passes, {pass, tasks}),
          nest_of(store->src[0], store->src[1], substitute(store->src[2], {{sum, kept}}), in_tasks,
                  {tasks})};
}

}  // namespace smelt
