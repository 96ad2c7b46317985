#include <algorithm>
#include <optional>

#include "codegen/passes.h"
#include "graph/range_kind.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr double kMasked = -1e29;  // a score this low never counts

struct Mask {
  Ref condition;  // whole, as it stands in the tree
  bool keeps;     // the value of the condition for terms that count
};

bool is_identity(Ref value, Op op) {
  if (!is_const(value)) return false;
  return op == Op::ReduceSum ? value->arg.f == 0 && value->arg.i == 0
                             : is_float(value->dtype) && value->arg.f <= kMasked;
}

std::optional<Mask> mask_of(Ref reduce) {
  const Ref term = reduce->src[0];
  if (term->op != Op::Where) return std::nullopt;
  if (is_identity(term->src[2], reduce->op)) return Mask{term->src[0], true};
  if (is_identity(term->src[1], reduce->op)) return Mask{term->src[0], false};
  return std::nullopt;
}

// The first index that the mask drops, if the kept ones are an initial part of the range.
std::optional<Ref> limit_of(const Mask& mask, Ref range) {
  Ref condition = mask.condition;
  bool keeps = mask.keeps;
  if (condition->op == Op::Not) condition = condition->src[0], keeps = !keeps;
  if (condition->op != Op::Lt || !is_int(condition->src[0]->dtype)) return std::nullopt;
  Ref below = condition->src[0],
      above = condition->src[1];  // keeps: below < above; drops: !(below < above)
  Ref slack = constant(0);
  if (!keeps) {  // kept where above <= below, that is above < below + 1
    std::swap(below, above);
    slack = constant(1);
  }
  const auto step = stride(below, range), other = stride(above, range);
  if (step != 1 || other != 0) return std::nullopt;
  const Ref base = substitute(below, {{range, constant(0, range->dtype)}});
  return simplify(cast(above, DType::I64) + slack - cast(base, DType::I64));
}

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
  const auto mask = mask_of(reduce);
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
