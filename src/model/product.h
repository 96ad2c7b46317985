// Products with weights in block formats, in floats or in 8-bit integers.
#pragma once

#include "model/activation_layout.h"
#include "model/dequant.h"

namespace smelt {

// How many elements of a row share a scale, at most, see Activations.
struct ActivationBlocks {
  int64_t most = 128;
  bool wide = false;
};
int64_t activation_block(int64_t k, int64_t most = 128);  // 0: rows of k elements have no whole blocks

// The left side of products: values, and, where the policy says so, the 8-bit integers that stand for them.
//   x[k] = scale[k / n] * q[k] + e, |e| <= scale / 2 = max |x| of the block / 254
// Blocks have n = 128 elements, or 64 or 32 where rows are no whole blocks of more. Longer ones leave fewer scales to
// multiply with: one for four groups of Q4_0. Blocks of 32 are what the task that makes their elements can make of
// them.
//
// Where products are made by a matrix unit, whose sums are dear to take out of it, blocks are wider (`wide`), and the
// groups of weights become as wide: bytes with one scale for a block, made once for all rows that they multiply. With
// s = the greatest that the format can hold in the block / 127, where it says scale * (q - zero) - minimum, a byte is
// off by
//   |e| <= s (1/2 + (max |q - zero| + 1) / 512)
//
// Where a unit multiplies halves (Machine::matrix_units), products of a prompt are made of these: activations and the
// weights that their bytes stand for are rounded to bf16, which is off by at most a 256th of each number, scales of
// weights before they are multiplied with. Sums are f32, added in the order of the unit.
struct Activations {
  Tensor x;                      // f32 [..., k]
  Tensor q;                      // i8 [..., k]; none: products are made of floats
  Tensor scale;                  // f32 [..., k / n]
  Tensor sums;                   // i32 [..., k / n]: of the integers of short blocks, less than 128; none: not known
  ActivationLayout layout = {};  // of integers, scales and what products make of them
  bool wide = false;             // weights become bytes in blocks as wide as these; else they keep their groups
  Tensor halves = {};            // bf16 [..., k], instead of integers; none: products are not made of halves
  int64_t tasks = 0;             // of products of halves, whose sums are cut into parts until there are as many
};
// x alone where k is not whole blocks.
Activations quantise_activations(Tensor x, const ActivationLayout& layout = {}, ActivationBlocks blocks = {});
// x in halves, or alone where k is not whole steps of the unit.
Activations halve_activations(Tensor x, const ActivationLayout& layout);
// The first n elements of rows, which are whole blocks. REQUIRES: the layout is that of one row.
Activations first_of(const Activations& x, int64_t n);
// The rows of x [n, k] named by `rows`, as by gather(). The integers are brought together once, as products read them
// again for every row of weights.
Activations rows_of(const Activations& x, Tensor rows);

// y[..., n] = sum over k of x[..., k] * w[..., n, k] for the weight w that `raw` holds (as for dequantize); leading
// axes broadcast.
Tensor product(const Activations& x, Tensor raw, GgufType type, WeightLayout layout = {});

}  // namespace smelt
