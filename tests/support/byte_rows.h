// Rows of a prompt as bytes in blocks, as products with 8-bit activations want them.
#pragma once

#include "support/small_graphs.h"

namespace smelt::testing {

struct BlockBytes {
  Tensor scale, q, sums;  // [rows, blocks], [rows, blocks, n], [rows, blocks]
};

inline BlockBytes bytes_of_blocks(Tensor x) {
  const Tensor scale = place(max(maximum(x, -x), -1) * (1.0 / 127));
  const Tensor inverse = scalar(1) / maximum(scale, scalar(1e-30));
  const Tensor q = place(cast(floor(x * unsqueeze(inverse, inverse.rank()) + 0.5), DType::I8));
  return {scale, q, place(cast(sum(cast(q, DType::I32), -1), DType::F32))};
}

// Outputs: the bytes' sums, and what `keeps` names: scales and bytes.
inline Ref rows_to_bytes(Tensor x, bool keeps) {
  const BlockBytes b = bytes_of_blocks(x);
  Refs outputs{output(9, b.sums)};
  if (keeps) {
    outputs.push_back(output(8, b.scale + 0.0));
    outputs.push_back(output(7, cast(b.q, DType::I32) + 1));
  }
  return sink(outputs);
}

}  // namespace smelt::testing
