#include "schedule/mask_limit.h"

#include "graph/constants.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"

namespace smelt {

bool is_identity(Ref value, Op op) {
  if (!is_const(value)) return false;
  return op == Op::ReduceSum ? value->arg.f == 0 && value->arg.i == 0
                             : is_float(value->dtype) && value->arg.f <= kMaskedScore;
}

std::optional<Mask> mask_of(Ref term, Op op) {
  if (term->op != Op::Where) return std::nullopt;
  const WhereView choice(term);
  if (is_identity(choice.no, op)) return Mask{choice.condition, true};
  if (is_identity(choice.yes, op)) return Mask{choice.condition, false};
  return std::nullopt;
}

std::optional<Ref> limit_of(const Mask& mask, Ref range) {
  Ref condition = mask.condition;
  bool keeps = mask.keeps;
  if (condition->op == Op::Not) condition = operand_of(condition), keeps = !keeps;
  if (condition->op != Op::Lt || !is_int(BinaryView(condition).x->dtype)) return std::nullopt;
  auto [below, above] = BinaryView(condition);  // keeps: below < above; drops: !(below < above)
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

std::optional<Ref> end_of(const Mask& mask, Ref range) {
  const auto [condition, keeps] = mask;
  if (condition->op == Op::Not) return end_of({operand_of(condition), !keeps}, range);
  if (condition->op != (keeps ? Op::And : Op::Or)) return limit_of(mask, range);
  for (Ref part : condition->src)  // each drops something for itself
    if (const auto end = end_of({part, keeps}, range)) return end;
  return std::nullopt;
}

}  // namespace smelt
