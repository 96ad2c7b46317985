// The sum over chosen matrices that a mixture of experts ends with.
#pragma once

#include "support/small_graphs.h"

namespace smelt::testing {

struct ChosenMatrices {
  int64_t used, rows, width;
  int64_t matrices = 64;  // as many as random_bytes() chooses from
};

// y[d] = x[d] + sum over e of weight[e] * (matrix chosen[e])[d, :] . in[e, :]
inline Ref sum_over_chosen(const ChosenMatrices& c) {
  const Tensor chosen = input(0, {c.used}, DType::I32);
  const Tensor matrix = gather(input(1, {c.matrices, c.rows, c.width}), chosen);        // [used, rows, width]
  const Tensor products = sum(matrix * unsqueeze(input(2, {c.used, c.width}), 1), -1);  // [used, rows]
  const Tensor y = input(4, {c.rows}) + sum(products * unsqueeze(input(3, {c.used}), 1), 0);
  return sink({output(9, y)});
}

}  // namespace smelt::testing
