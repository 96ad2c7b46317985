#include "schedule/mask_limit.h"

#include "graph/constants.h"
#include "graph/rules_algebra.h"

namespace smelt {

bool is_identity(Ref value, Op op) {
  if (!is_const(value)) return false;
  return op == Op::ReduceSum ? value->arg.f == 0 && value->arg.i == 0
                             : is_float(value->dtype) && value->arg.f <= kMaskedScore;
}

std::optional<Mask> mask_of(Ref term, Op op) {
  if (term->op != Op::Where) return std::nullopt;
  if (is_identity(term->src[2], op)) return Mask{term->src[0], true};
  if (is_identity(term->src[1], op)) return Mask{term->src[0], false};
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

}  // namespace smelt
