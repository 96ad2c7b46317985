// The shape of a matrix_dot: the product of two small matrices that one matrix unit computes. It is arg.list of the
// node and of the instruction.
//
//   c[m, n] = sum over k of  a[m, k] * b[k, n]
//
// Elements are bytes, one side signed and the other not; sums are i32 and wrap, so they have no order. A word holds
// four neighbours along k.
//
// Where the operands are is the one difference between units:
//
//   in memory (AMX): the unit loads them. Row m of `a` begins m * a_stride bytes behind the first, and is contiguous.
//   Row k of words of `b` begins k * b_stride bytes behind the first and has one word for each lane: n are lanes.
//   The product has rows: items of n lanes each.
//
//   in fragments (MMA): words in the registers of a warp. Thread t has, with group g = t / 4 and place q = t % 4, by
//   number r of the register:
//
//     a:  row g + 8 (r % (m / 8)),   word q + 4 (r / (m / 8))
//     b:  column g,                  word q + 4 r
//     c:  row g + 8 (r / 2),         column 2 q + r % 2
//
//   which is mma.sync of NVIDIA: m8n8k16 and m16n8k32 (PTX ISA, "Matrix fragments for mma"). The product has registers:
//   items of a thread each.
#pragma once

#include <cstdint>
#include <vector>

namespace smelt {

// Of a row of a product in memory, where it lies: as many sums as a unit may have side by side.
constexpr int64_t kMatrixRowBytes = 64;

constexpr int64_t kBytesOfWord = 4;

constexpr int64_t kFragmentGroups = 8, kFragmentPlaces = 4;  // of a warp

struct MatrixShape {
  int64_t m = 0, n = 0, k = 0;
  bool in_fragments = false;
  bool a_is_signed = true;             // and b is not; else the other way round
  int64_t greatest = 0;                // no unsigned byte is above it (0: not known)
  int64_t a_stride = 0, b_stride = 0;  // in memory

  int64_t words() const { return k / kBytesOfWord; }  // of a row of a, of a column of b

  // Fragments: registers of a thread.
  int64_t row_blocks() const { return m / kFragmentGroups; }
  int64_t word_blocks() const { return words() / kFragmentPlaces; }
  int64_t a_words() const { return row_blocks() * word_blocks(); }
  int64_t b_words() const { return word_blocks(); }
  int64_t sums() const { return 2 * row_blocks(); }

  // What the product is read by: its rows, or the sums of a thread.
  int64_t items() const { return in_fragments ? sums() : m; }

  std::vector<int64_t> list() const { return {m, n, k, in_fragments, a_is_signed, greatest, a_stride, b_stride}; }
};

// REQUIRES: is_matrix_shape(list).
inline MatrixShape matrix_shape(const std::vector<int64_t>& list) {
  return {.m = list[0],
          .n = list[1],
          .k = list[2],
          .in_fragments = list[3] != 0,
          .a_is_signed = list[4] != 0,
          .greatest = list[5],
          .a_stride = list[6],
          .b_stride = list[7]};
}

inline bool is_matrix_shape(const std::vector<int64_t>& list) {
  if (list.size() != 8 || list[0] < 1 || list[1] < 1 || list[2] < 1) return false;
  const MatrixShape s = matrix_shape(list);
  if (s.k % kBytesOfWord != 0) return false;
  if (!s.in_fragments) return true;
  return s.m % kFragmentGroups == 0 && s.n == kFragmentGroups && s.words() % kFragmentPlaces == 0;
}

}  // namespace smelt
