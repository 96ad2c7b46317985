// The shape of a matrix_dot: small matrices of bytes in memory whose product one instruction computes, where there is
// one. It is arg.list of the node and of the instruction.
//
//   c[m, n] = sum over k < words, b < 4 of  a[m, 4 k + b] * b[k, 4 n + b]
//
// Row m of `a` begins m * a_stride bytes behind the first, and is contiguous: words of four bytes. Row k of `b` begins
// k * b_stride bytes behind the first and has one word for each lane. Sums are i32 and wrap.
#pragma once

#include <cstdint>
#include <vector>

namespace smelt {

// Of a row of the product, where it lies in memory: as many sums as a unit may have side by side.
constexpr int64_t kMatrixRowBytes = 64;

struct MatrixShape {
  int64_t rows = 0, lanes = 0, words = 0;
  int64_t a_stride = 0, b_stride = 0;
  bool a_is_signed = true;  // and b is not; else the other way round
  int64_t greatest = 0;     // no unsigned byte is above it (0: not known)

  std::vector<int64_t> list() const { return {rows, lanes, words, a_stride, b_stride, a_is_signed, greatest}; }
};

// REQUIRES: is_matrix_shape(list).
inline MatrixShape matrix_shape(const std::vector<int64_t>& list) {
  return {list[0], list[1], list[2], list[3], list[4], list[5] != 0, list[6]};
}

inline bool is_matrix_shape(const std::vector<int64_t>& list) {
  if (list.size() != 7) return false;
  const MatrixShape s = matrix_shape(list);
  return s.rows >= 1 && s.lanes >= 1 && s.words >= 1;
}

}  // namespace smelt
