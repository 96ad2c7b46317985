// Sums of products of halves (bf16), as a unit makes them: terms are exact, and added in an order that the unit alone
// knows, so that the order of such a sum is nothing that the compiler keeps.
#pragma once

#include "graph/operands.h"
#include "graph/views.h"

namespace smelt {

inline bool is_half(Ref x) {
  return x->op == Op::Cast && x->dtype == DType::F32 && operand_of(x)->dtype == DType::BF16;
}

inline bool is_product_of_two_halves(Ref term) {
  return term->op == Op::Mul && is_half(BinaryView(term).x) && is_half(BinaryView(term).y);
}

// Whether a sum adds up such products, or what a unit has made of them.
inline bool adds_halves(Ref reduce) {
  if (reduce->op != Op::ReduceSum || reduce->dtype != DType::F32) return false;
  const Ref term = ReduceView(reduce).values[0];
  return is_product_of_two_halves(term) || term->op == Op::MatrixItem;
}

}  // namespace smelt
