#include <algorithm>

#include "codegen/passes.h"
#include "codegen/program.h"
#include "graph/constants.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

bool has_reduction(std::span<const Ref> values) {
  return std::any_of(values.begin(), values.end(), [](Ref v) {
    const Refs nodes = toposort(v);
    return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return is_reduce(n->op); });
  });
}

// Elements of a round. All of its loads go before its operations, so that long sums wait less often; in a short one
// most of a long round would be elements that are not there. Either gives the same bits.
constexpr int64_t kTogetherOfMany = 16, kTogetherOfFew = 4;

bool goes_in_rounds(Ref softmax) {
  const ReduceView view(softmax);
  return view.values.size() == 2 && view.ranges.size() == 1 && !has_reduction(view.values) &&
         is_range(view.ranges[0], RangeKind::Reduce) && !const_int(RangeView(view.ranges[0]).size);
}

Ref range_of(Ref softmax) { return ReduceView(softmax).ranges[0]; }
Ref count_of(Ref softmax) { return RangeView(range_of(softmax)).size; }

Ref rounds_of(Ref softmax, int64_t together) {
  return with_size(range_of(softmax), simplify((count_of(softmax) + (together - 1)) / together));
}

// Elements behind the last one are the last one once more, with a score that gives them no weight.
Ref at_element(Ref softmax, size_t value, Ref index) {
  const Replacements by{{range_of(softmax), simplify(binary(Op::Min, index, count_of(softmax) - 1))}};
  return substitute(ReduceView(softmax).values[value], by);
}

Ref value_at(Ref softmax, Ref index) { return at_element(softmax, 1, index); }

Ref score_at(Ref softmax, Ref index) {
  const Ref score = at_element(softmax, 0, index);
  return where(binary(Op::Lt, index, count_of(softmax)), score, constant_f(kLowest, score->dtype));
}

Ref in_rounds(Ref softmax, int64_t together) {
  const Ref round = rounds_of(softmax, together);
  Refs src;
  for (int64_t i = 0; i < together; ++i) {
    const Ref index = simplify(round * together + i);
    src.push_back(score_at(softmax, index));
    src.push_back(value_at(softmax, index));
  }
  src.push_back(round);
  return with_sources(softmax, std::move(src));
}

bool has_lanes(Ref value) {
  const Refs ranges = ranges_of(value);
  return std::any_of(ranges.begin(), ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::Lane; });
}

// Whether all threads would make the same weights of many elements.
bool is_to_share(Ref softmax, const Machine& machine) {
  return machine.warp_threads == kWarp && count_of(softmax)->max > kTogetherOfMany && !has_lanes(softmax->src[0]) &&
         softmax->src[0]->dtype == DType::F32 && softmax->dtype == DType::F32;
}

Ref in_shared_rounds(Ref softmax) {
  const Ref round = rounds_of(softmax, kWarp),
            lane = make_thread_range(inner_part(RangeView(round).number), constant(kWarp), 1),
            own = simplify(round * int64_t{kWarp} + lane);
  Refs src{score_at(softmax, own)};
  if (has_lanes(ReduceView(softmax).values[1]))
    for (int64_t i = 0; i < kWarp; ++i) src.push_back(value_at(softmax, simplify(round * int64_t{kWarp} + i)));
  else
    src.push_back(value_at(softmax, own));
  src.push_back(round);
  src.push_back(lane);
  return make(softmax->op, softmax->dtype, std::move(src), {.i = softmax->arg.i, .list = {kWarp}});
}

Ref in_rounds(Ref softmax, const Machine& machine) {
  if (!goes_in_rounds(softmax)) return softmax;
  if (is_to_share(softmax, machine)) return in_shared_rounds(softmax);
  return in_rounds(softmax, count_of(softmax)->max > kTogetherOfMany ? kTogetherOfMany : kTogetherOfFew);
}

}  // namespace

Refs softmax_rounds(const Refs& stores, const Machine& machine) {
  if (!machine.has_threads()) return stores;
  Refs out;
  for (Ref s : stores)
    out.push_back(rebuild(s, [&](Ref, Ref n) { return n->op == Op::SoftmaxSum ? in_rounds(n, machine) : n; }));
  return out;
}

}  // namespace smelt
