// Small tensor graphs of the kinds that models are made of.
#pragma once

#include "graph/tensor.h"

namespace smelt::testing {

inline Tensor input(int slot, std::vector<Dim> shape, DType dtype = DType::F32) {
  return param(slot, dtype, std::move(shape), "x" + std::to_string(slot));
}

inline Tensor mean_square(Tensor x) { return sum(x * x, -1) * (1.0 / static_cast<double>(x.size(-1))); }

inline Tensor rms_norm(Tensor x, Tensor weight) {
  return x * unsqueeze(scalar(1) / sqrt(mean_square(x) + 1e-5), x.rank() - 1) * weight;
}

// The values f32 [rows, blocks * 32] of Q4_0 blocks u8 [rows, blocks, 18]: d * (q - 8).
inline Tensor q4_0(Tensor raw) {
  const Dim rows = raw.dim(0);
  const int64_t blocks = raw.size(1);
  const Tensor d = cast(bitcast(slice(raw, -1, 0, 2), DType::F16), DType::F32);  // [rows, blocks, 1]
  const Tensor bytes = reshape(slice(raw, -1, 2, 16), {rows, blocks, 1, 16});
  const Tensor shift = cast(iota({2, 1}, 0) * 4.0, DType::U8);
  const Tensor q = reshape((bytes >> shift) & 15, {rows, blocks, 32});
  return reshape(d * (cast(q, DType::F32) - 8.0), {rows, blocks * 32});
}

// y[t, n] = sum over g of scale_w[g, n] * scale_x[t, g] * sum over k of w[n, g, k] * x[t, g, k]: 8-bit activations
// times weights that lie as kernels leave unpacked ones, u8 [rows / lanes, groups, words, lanes, 4].
inline Tensor grouped_product(Dim tokens, int64_t rows, int64_t groups, int64_t words, int64_t lanes = 16) {
  const Tensor raw = input(0, {rows / lanes, groups, words, lanes, 4}, DType::U8);
  const Tensor w = reshape(permute(raw, {0, 3, 1, 2, 4}), {1, rows, groups, words * 4});
  const Tensor x = reshape(input(1, {tokens, groups, words * 4}, DType::I8), {tokens, 1, groups, words * 4});
  const Tensor sums = cast(sum(cast(w, DType::I32) * cast(x, DType::I32), -1),
                           DType::F32);  // [tokens, rows, groups]
  const Tensor scale_w = unsqueeze(permute(input(2, {groups, rows}), {1, 0}), 0),
               scale_x = unsqueeze(input(3, {tokens, groups}), 1);
  return sum(sums * scale_w * scale_x, -1);
}

// Each token's best `used` of `experts` and their normalised weights.
struct Routes {
  Tensor experts, weights;  // [tokens, used]
};
inline Routes route(Tensor x, Tensor router, Tensor bias, int used) {
  const Tensor scores = sigmoid(linear(x, router));
  const Tensor chosen = top_k(scores + bias, used);
  const int64_t tokens = x.size(0), experts = router.size(0);
  // The score of a chosen expert, by comparing its number with all.
  const Tensor is_it =
      equal(reshape(cast(chosen, DType::I64), {tokens, used, 1}), reshape(iota({experts}, 0), {1, 1, experts}));
  const Tensor picked = sum(where(is_it, reshape(scores, {tokens, 1, experts}), scalar(0)), -1);
  return {chosen, picked / unsqueeze(sum(picked, -1), 1)};
}

// Attention of one query token over `chunks` * 64 rows of a cache [rows, width], of which the first
// `value` columns are the values too. Keys above `position` are masked.
inline Tensor attention(Tensor q, Tensor cache, Tensor position, Dim length, int64_t value) {
  const int64_t heads = q.size(0), width = q.size(1);
  const Tensor rows = slice(cache, 0, 0, length);  // [length, width]
  const Tensor score = sum(reshape(q, {heads, 1, width}) * unsqueeze(rows, 0), -1) * 0.25;
  const Tensor above = less(reshape(cast(position, DType::I64), {1, 1}), reshape(iota({length}, 0), {1, length}));
  const Tensor masked = where(above, scalar(-1e30), score);
  return softmax_average(unsqueeze(masked, 2), unsqueeze(slice(rows, 1, 0, value), 0), 1);
}

// The same for many tokens q [tokens, heads, width] at positions [tokens].
inline Tensor attention_of_tokens(Tensor q, Tensor cache, Tensor position, Dim length, int64_t value) {
  const Tensor rows = slice(cache, 0, 0, length);  // [length, width]
  const Tensor keys = unsqueeze(unsqueeze(rows, 0), 0), values = slice(keys, 3, 0, value);
  const Tensor score = sum(unsqueeze(q, 2) * keys, -1) * 0.25;  // [tokens, heads, length]
  const Tensor above = less(unsqueeze(cast(position, DType::I64), 1), unsqueeze(iota({length}, 0), 0));
  const Tensor masked = where(unsqueeze(above, 1), scalar(-1e30), score);
  return softmax_average(unsqueeze(masked, 3), values, 2);
}

}  // namespace smelt::testing
