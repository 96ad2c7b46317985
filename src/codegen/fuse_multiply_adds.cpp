// Which multiplications and additions are one operation, rounded once, is decided here: before options, so that none of
// them changes it, and by the nodes alone.
//
//   x * y + z                   ->  fma(x, y, z)
//   sum(x * y; k)               ->  sum(fma(x, y, [0]); k)               what [0] stands for is the sum so far
//   sum(x * y - z * w; k)       ->  sum(fma(-z, w, fma(x, y, [0])); k)
#include "codegen/passes.h"
#include "codegen/products_of_halves.h"
#include "codegen/term_of_sum.h"
#include "graph/operands.h"
#include "graph/views.h"

namespace smelt {
namespace {

bool is_product(Ref n) { return n->op == Op::Mul; }

// x * y + z for a product x * y.
Ref multiply_add(Ref product, Ref z) {
  const auto [x, y] = BinaryView(product);
  return make(Op::Fma, z->dtype, {x, y, z});
}

// -(x * y) + z
Ref multiply_subtract(Ref product, Ref z) {
  const auto [x, y] = BinaryView(product);
  return make(Op::Fma, z->dtype, {unary(Op::Neg, x), y, z});
}

Ref fuse_addition(Ref n) {
  const auto [x, y] = BinaryView(n);
  if (n->op == Op::Add && is_product(y)) return multiply_add(y, x);
  if (n->op == Op::Add && is_product(x)) return multiply_add(x, y);
  if (n->op == Op::Sub && is_product(y)) return multiply_subtract(y, x);
  if (n->op == Op::Sub && is_product(x)) return multiply_add(x, unary(Op::Neg, y));
  return n;
}

// A product, or the sum or difference of two, as what is added to a sum; nothing else.
Ref opened(Ref term) {
  if (is_product(term)) return open_product(BinaryView(term).x, BinaryView(term).y, zero_of(term->dtype));
  if (term->op != Op::Fma || !is_product(FmaView(term).z)) return Ref();
  const auto [x, y, z] = FmaView(term);
  return open_product(x, y, opened(z));
}

bool can_fuse(Ref n) { return n->dtype == DType::F32 || n->dtype == DType::F64; }

}  // namespace

Refs fuse_multiply_adds(const Refs& stores) {
  Refs out;
  for (Ref store : stores)
    out.push_back(rebuild(store, [](Ref, Ref n) {
      if (!can_fuse(n)) return n;
      if (n->op == Op::Add || n->op == Op::Sub) return fuse_addition(n);
      if (n->op != Op::ReduceSum || adds_halves(n)) return n;
      const ReduceView sum(n);
      const Ref term = opened(sum.values[0]);
      return term ? make_reduce(Op::ReduceSum, n->dtype, {term}, sum.ranges) : n;
    }));
  return out;
}

}  // namespace smelt
