// The shape of a fragment_dot: small matrices of bytes in the registers of a warp, whose product one instruction of
// all its threads computes. It is arg.list of the node and of the instruction.
//
//   c[m, n] = sum over k of  a[m, k] * b[k, n]        a, b bytes, one of them signed; c i32, which wraps
//
// Registers have four bytes, neighbours along k, or one sum. Thread t of a warp has, with group g = t / 4 and place
// q = t % 4, by number r of the register:
//
//   a:  row g + 8 (r % (m / 8)),   bytes from 4 (q + 4 (r / (m / 8))) on
//   b:  column g,                  bytes from 4 (q + 4 r) on
//   c:  row g + 8 (r / 2),         column 2 q + r % 2
//
// which is mma.sync of NVIDIA, m8n8k16 and m16n8k32 (PTX ISA, "Matrix fragments for mma").
#pragma once

#include <cstdint>
#include <vector>

#include "base/machine.h"

namespace smelt {

constexpr int64_t kFragmentGroups = 8, kFragmentPlaces = 4;  // of a warp

struct FragmentShape {
  int64_t m = 0, n = 0, k = 0;
  bool a_is_signed = true;  // and b is not; else the other way round

  std::vector<int64_t> list() const { return {m, n, k, a_is_signed}; }

  // Registers of a thread.
  int64_t row_blocks() const { return m / kFragmentGroups; }
  int64_t word_blocks() const { return k / (4 * kFragmentPlaces); }
  int64_t a_words() const { return row_blocks() * word_blocks(); }
  int64_t b_words() const { return word_blocks(); }
  int64_t sums() const { return 2 * row_blocks(); }
  int64_t words() const { return k / 4; }  // of a row
};

// REQUIRES: is_fragment_shape(list).
inline FragmentShape fragment_shape(const std::vector<int64_t>& list) {
  return {list[0], list[1], list[2], list[3] != 0};
}

inline bool is_fragment_shape(const std::vector<int64_t>& list) {
  if (list.size() != 4) return false;
  const FragmentShape s = fragment_shape(list);
  return s.m > 0 && s.m % kFragmentGroups == 0 && s.n == kFragmentGroups && s.k > 0 && s.k % (4 * kFragmentPlaces) == 0;
}

}  // namespace smelt
