// Terms of float sums whose last operation adds them: fma(x, y, [0]), where [0] stands for the sum so far.
//
// The mark is part of the node (Fma with arg.i = 1), so that a term stays what fuse_multiply_adds() has made of it
// whatever is simplified around it later.
#pragma once

#include "graph/node.h"
#include "graph/operands.h"

namespace smelt {

// What a sum begins with: -0 + x is x, whatever its sign.
inline Ref zero_of(DType dtype) { return is_float(dtype) ? constant_f(-0.0, dtype) : constant(0, dtype); }

inline Ref open_product(Ref x, Ref y, Ref sum) { return make(Op::Fma, x->dtype, {x, y, sum}, {.i = 1}); }

inline bool is_open(Ref term) { return term->op == Op::Fma && term->arg.i == 1; }

// What must be known before the term is added.
inline Refs operands_of_term(Ref term) {
  if (!is_open(term)) return {term};
  const auto [x, y, rest] = FmaView(term);
  Refs operands = is_open(rest) ? operands_of_term(rest) : Refs{};
  operands.push_back(x);
  operands.push_back(y);
  return operands;
}

// The term by itself.
inline Ref closed(Ref term) {
  if (!is_open(term)) return term;
  const auto [x, y, rest] = FmaView(term);
  return is_open(rest) ? make(Op::Fma, term->dtype, {x, y, closed(rest)}) : binary(Op::Mul, x, y);
}

// The sum with the term added to it.
inline Ref added_to(Ref sum, Ref term) {
  if (!is_open(term)) return binary(Op::Add, sum, term);
  const auto [x, y, rest] = FmaView(term);
  return make(Op::Fma, term->dtype, {x, y, is_open(rest) ? added_to(sum, rest) : sum});
}

}  // namespace smelt
