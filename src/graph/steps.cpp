#include "graph/steps.h"

#include "base/ensure.h"

namespace smelt {

Tensor left_before(int number, std::vector<Dim> shape) {
  Shape sizes;
  for (const Dim& d : shape) sizes.push_back(d.ref);
  return Tensor(make(Op::Local, DType::F32, {}, {.i = number, .list = {0}}, std::move(sizes)));
}

Ref leave(Tensor left, int axis, Tensor next) {
  ENSURE(left.ref()->op == Op::Local && left.dtype() == next.dtype() && left.shape() == next.shape(),
         "a step leaves what the next one finds");
  const Tensor rows = iota({left.dim(axis)}, 0) + 1.0;
  return make(Op::Write, left.dtype(), {left.ref(), rows.ref(), next.ref()}, {.i = axis}, left.shape());
}

}  // namespace smelt
