// The formulas of block formats: what the bytes of a block say of its elements.
#pragma once

#include "model/dequant.h"

namespace smelt {

// What every format comes down to: groups of elements that share a scale,
//   value = scale[g] * (q[g, e] - zero) - minimum[g]
// with small integers q (or, for the plain types, the values themselves).
struct Grouped {
  Tensor q;      // [groups, elements], U8, I8 or a float
  Tensor scale;  // f32 [groups]
  int zero = 0;
  Tensor minimum;  // f32 [groups]; none: zero
  // Where minima are multiples of a step of the block, minimum[g] = step * steps[g]:
  Tensor step;         // f32 [1]
  Tensor steps;        // U8 [groups], below 128
  int64_t most = 255;  // integers are no greater than that, whatever their bits could say
};

// The groups of the blocks that `raw` holds (as for dequantize), with the axes of rows and blocks in front.
Grouped groups_of(Tensor raw, GgufType type, WeightLayout layout);

// Replaces the last `axes` axes by those of `to`.
Tensor with_last_axes(Tensor x, int axes, std::vector<int64_t> to);

}  // namespace smelt
