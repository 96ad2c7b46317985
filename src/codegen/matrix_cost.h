// What a product of small matrices costs a core, in cycles: by a matrix unit and by sums of words. What is in flight at
// once overlaps.
#pragma once

#include <algorithm>

#include "base/machine.h"
#include "graph/matrix_shape.h"

namespace smelt {

// The unit takes a row of `a` a cycle, as wide as it multiplies at once; two rows are loaded a cycle, one is stored,
// and what is stored is loaded back as vectors. To fill and to empty the unit takes longer than a small product.
inline double tile_cycles(const MatrixShape& s, const MatrixUnit& unit) {
  const double words_at_once = static_cast<double>(unit.k * size_of(unit.a) / kBytesOfWord);
  const double rows = static_cast<double>(s.m), words = static_cast<double>(s.words());
  const double blocks = static_cast<double>(s.blocks), steps = std::max(1.0, words / words_at_once);
  const double loads = (rows * steps + blocks * (words + rows)) / 2;
  return unit.start_cycles + std::max({rows * steps * blocks, loads, rows * blocks});
}

// One instruction for a word of a row.
inline double dot_cycles(const MatrixShape& s, const Machine& machine) {
  return static_cast<double>(s.m) * static_cast<double>(s.words()) / machine.vectors_per_cycle;
}

}  // namespace smelt
