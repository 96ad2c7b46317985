#include <algorithm>

#include "codegen/passes.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/mask_limit.h"

namespace smelt {
namespace {

// A sum that a mask throws away is not computed.
Ref dropped(Ref masked) {
  const auto [condition, sum, otherwise] = WhereView(masked);
  if (sum->op != Op::ReduceSum || !is_identity(otherwise, Op::ReduceSum)) return masked;
  const auto ranges = ReduceView(sum).ranges;
  if (ranges.size() != 1 || !is_range(ranges[0], RangeKind::Reduce)) return masked;
  const Ref size = simplify(cast(condition, DType::I64) * RangeView(ranges[0]).size);
  return substitute(sum, {{ranges[0], with_size(ranges[0], size)}});
}

Ref bounded(Ref reduce) {
  const ReduceView view(reduce);
  const Ref range = view.ranges.back(), masked = view.values[0];
  if (!is_range(range, RangeKind::Reduce)) return reduce;
  const auto mask = mask_of(masked, reduce->op);
  if (!mask) return reduce;
  const auto limit = limit_of(*mask, range);
  if (!limit) return reduce;
  const Ref clamped = binary(Op::Max, binary(Op::Min, *limit, RangeView(range).size), constant(0));
  const Ref shorter = with_size(range, simplify(clamped));
  Refs src = reduce->src;
  src[0] = mask->keeps ? WhereView(masked).yes : WhereView(masked).no;
  return substitute(with_sources(reduce, std::move(src)), {{range, shorter}});
}

}  // namespace

Refs bound_masks(const Refs& stores) {
  Refs out;
  for (Ref s : stores)
    out.push_back(rebuild(s, [](Ref, Ref n) {
      if (n->op == Op::Where) return dropped(n);
      const bool maskable = n->op == Op::ReduceSum || n->op == Op::ReduceMax || n->op == Op::SoftmaxSum;
      return maskable ? bounded(n) : n;
    }));
  return out;
}

}  // namespace smelt
