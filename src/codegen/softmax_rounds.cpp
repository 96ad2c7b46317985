#include <algorithm>

#include "codegen/passes.h"
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

// Elements behind the last one are the last one once more, with a score that gives them no weight.
Ref in_rounds(Ref softmax) {
  const ReduceView view(softmax);
  if (view.values.size() != 2 || view.ranges.size() != 1 || has_reduction(view.values)) return softmax;
  const Ref range = view.ranges[0], count = RangeView(range).size;
  if (const_int(count) || !is_range(range, RangeKind::Reduce)) return softmax;
  const int64_t together = count->max > kTogetherOfMany ? kTogetherOfMany : kTogetherOfFew;
  const Ref round = with_size(range, simplify((count + (together - 1)) / together));
  Refs src;
  for (int64_t i = 0; i < together; ++i) {
    const Ref index = simplify(round * together + i);
    const Replacements by{{range, simplify(binary(Op::Min, index, count - 1))}};
    const Ref score = substitute(view.values[0], by);
    src.push_back(where(binary(Op::Lt, index, count), score, constant_f(kLowest, score->dtype)));
    src.push_back(substitute(view.values[1], by));
  }
  src.push_back(round);
  return with_sources(softmax, std::move(src));
}

}  // namespace

Refs softmax_rounds(const Refs& stores, const Machine& machine) {
  if (!machine.has_threads()) return stores;
  Refs out;
  for (Ref s : stores) out.push_back(rebuild(s, [](Ref, Ref n) { return n->op == Op::SoftmaxSum ? in_rounds(n) : n; }));
  return out;
}

}  // namespace smelt
