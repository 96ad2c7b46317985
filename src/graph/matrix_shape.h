// The shape of a matrix_dot: the product of two small matrices that one matrix unit computes. It is arg.list of the
// node and of the instruction.
//
//   c[m, n] = sum over k of  a[m, k] * b[k, n]
//
// Elements are bytes, one side signed and the other not; sums are i32 and wrap, so they have no order. A word holds
// four neighbours along k. Or they are halves, bf16, two in a word, whose sums are f32, added in an order that the unit
// alone knows: each is off by no more than if it had been rounded once for each term.
//
// Where the operands are is the other difference between units:
//
//   in memory (AMX): the unit loads them. Row m of `a` begins m * a_stride bytes behind the first, and is contiguous.
//   Row k of words of `b` begins k * b_stride bytes behind the first and has one word for each lane: n are lanes.
//   The product has rows: items of n lanes each. Of halves there may be several blocks of `b`, block_stride bytes
//   apart, that the same rows are multiplied with: items are then the rows of all blocks, those of a row together.
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
//
//   of a warpgroup (WGMMA, halves): `a` and `c` in the registers of four warps in the same way, 16 rows of each, and in
//   `c` the columns by eights, one behind the other:
//
//     c:  row g + 8 (r / 2 % 2),     column 8 (r / 4) + 2 q + r % 2
//
//   `b` lies on chip, as eights of columns b_stride bytes apart, in which eight halves of each column lie side by side,
//   then the next eight of each.
//
//   which is wgmma of NVIDIA with core matrices of 8 x 16 bytes and no swizzle (PTX ISA, "Register fragments and shared
//   memory matrix layouts").
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace smelt {

// Of a row of a product in memory, where it lies: as many sums as a unit may have side by side.
constexpr int64_t kMatrixRowBytes = 64;

constexpr int64_t kBytesOfWord = 4, kBytesOfHalf = 2;

constexpr int64_t kFragmentGroups = 8, kFragmentPlaces = 4;  // of a warp
constexpr int64_t kWarpgroupWarps = 4;
constexpr int64_t kHalvesOfStep = 16;                                                // of a row
constexpr int64_t kCoreRowBytes = 16, kCoreBytes = kCoreRowBytes * kFragmentGroups;  // of halves that lie side by side

// Which of 16 halves are side by side changes no sum, as long as both sides agree. So what lies in memory for a unit
// has those of a thread apart: it takes four neighbours of a row, a word of bytes, as pairs of the first and of the
// next eight. Element 4 q + 2 i + h is half i of pair q of eight h: pairs are bytes 0 and 2 of a word, and 1 and 3, so
// that masks make them.
constexpr int64_t kQuad = 4, kPair = 2;

struct MatrixShape {
  int64_t m = 0, n = 0, k = 0;
  bool in_fragments = false;
  bool a_is_signed = true;             // and b is not; else the other way round
  int64_t greatest = 0;                // no unsigned byte is above it (0: not known)
  int64_t a_stride = 0, b_stride = 0;  // in memory
  bool of_halves = false;              // of a warpgroup, or in memory; else of bytes
  int64_t blocks = 1, block_stride = 0;
  int64_t a_ahead = 0;  // bytes from a row to the one that caches are asked for meanwhile; 0: none

  bool of_warpgroup() const { return of_halves && in_fragments; }
  int64_t words() const { return k * (of_halves ? 2 : 1) / kBytesOfWord; }  // of a row of a, of a column of b

  // Fragments: registers of a thread.
  int64_t warps() const { return of_warpgroup() ? kWarpgroupWarps : 1; }
  int64_t row_blocks() const { return m / warps() / kFragmentGroups; }
  int64_t word_blocks() const { return words() / kFragmentPlaces; }
  int64_t a_words() const { return row_blocks() * word_blocks(); }
  int64_t b_words() const { return of_halves ? 2 : word_blocks(); }  // of halves: where they lie, and at which byte
  int64_t sums() const { return 2 * row_blocks() * n / kFragmentGroups; }
  int64_t steps() const { return k / kHalvesOfStep; }  // of halves: that the unit multiplies at once

  // What the product is read by: its rows, or the sums of a thread.
  int64_t items() const { return in_fragments ? sums() : m * blocks; }

  std::vector<int64_t> list() const {
    return {m, n, k, in_fragments, a_is_signed, greatest, a_stride, b_stride, of_halves, blocks, block_stride, a_ahead};
  }
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
          .b_stride = list[7],
          .of_halves = list[8] != 0,
          .blocks = list[9],
          .block_stride = list[10],
          .a_ahead = list[11]};
}

// Whether source k of a product is a buffer.
inline bool is_address_of_matrix(const MatrixShape& s, size_t k) {
  return s.in_fragments ? s.of_halves && static_cast<int64_t>(k) == s.a_words() : k % 2 == 0;
}

inline bool is_matrix_shape(const std::vector<int64_t>& list) {
  if (list.size() != 12 || list[0] < 1 || list[1] < 1 || list[2] < 1) return false;
  const MatrixShape s = matrix_shape(list);
  const bool has_blocks = s.of_halves && !s.in_fragments;
  if (s.blocks < 1 || (s.blocks > 1 && !has_blocks)) return false;
  if (s.k % kBytesOfWord != 0) return false;
  if (s.of_warpgroup())
    return s.m == kWarpgroupWarps * 2 * kFragmentGroups && s.n % kFragmentGroups == 0 && s.k % kHalvesOfStep == 0 &&
           s.b_stride > 0 && s.b_stride % kCoreRowBytes == 0;
  if (!s.in_fragments) return true;
  return s.m % kFragmentGroups == 0 && s.n == kFragmentGroups && s.words() % kFragmentPlaces == 0;
}

}  // namespace smelt
