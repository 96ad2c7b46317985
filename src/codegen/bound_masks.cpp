#include <algorithm>

#include "codegen/passes.h"
#include "graph/range_kind.h"
#include "graph/rules_algebra.h"
#include "schedule/mask_limit.h"

namespace smelt {
namespace {

bool is_reduce_loop(Ref range) {
  return range->op == Op::Range && static_cast<RangeKind>(range->arg.list[0]) == RangeKind::Reduce;
}

// A sum that a mask throws away is not computed.
Ref dropped(Ref masked) {
  const Ref condition = masked->src[0], sum = masked->src[1];
  if (sum->op != Op::ReduceSum || !is_identity(masked->src[2], Op::ReduceSum)) return masked;
  const Ref range = sum->src.back();
  if (sum->src.size() != 2 || !is_reduce_loop(range)) return masked;
  const Ref size = simplify(cast(condition, DType::I64) * range->src[0]);
  return substitute(sum, {{range, make(Op::Range, DType::I64, {size}, range->arg)}});
}

Ref bounded(Ref reduce) {
  const Ref range = reduce->src.back();
  if (!is_reduce_loop(range)) return reduce;
  const auto mask = mask_of(reduce->src[0], reduce->op);
  if (!mask) return reduce;
  const auto limit = limit_of(*mask, range);
  if (!limit) return reduce;
  const Ref clamped = binary(Op::Max, binary(Op::Min, *limit, range->src[0]), constant(0));
  const Ref shorter = make(Op::Range, DType::I64, {simplify(clamped)}, range->arg);
  const Ref term = reduce->src[0]->src[mask->keeps ? 1 : 2];
  Refs src = reduce->src;
  src[0] = term;
  return substitute(with_sources(reduce, std::move(src)), {{range, shorter}});
}

}  // namespace

Refs bound_masks(const Refs& stores) {
  Refs out;
  for (Ref s : stores)
    out.push_back(rebuild(s, [](Ref, Ref n) {
      if (n->op == Op::Where) return dropped(n);
      const bool maskable =
          n->op == Op::ReduceSum || n->op == Op::ReduceMax || n->op == Op::SoftmaxSum;
      return maskable ? bounded(n) : n;
    }));
  return out;
}

}  // namespace smelt
