// What a product of small matrices costs a core, in cycles: by tile instructions and by sums of words. The figures are
// those of the first processors with AMX, as their maker gives them; what is in flight at once overlaps.
#pragma once

#include <algorithm>

#include "graph/matrix_shape.h"

namespace smelt {

// The unit takes a row of `a` a cycle, of 16 words; two rows are loaded a cycle, one is stored, and what is stored is
// loaded back as vectors. To fill and to empty the unit takes longer than a small product.
inline double tile_cycles(const MatrixShape& s) {
  constexpr double kWordsATime = 16, kStart = 4;
  const double rows = static_cast<double>(s.rows), words = static_cast<double>(s.words);
  const double steps = std::max(1.0, words / kWordsATime);
  const double loads = (rows * steps + words + rows) / 2;
  return kStart + std::max({rows * steps, loads, rows});
}

// One instruction for a word of a row, two a cycle.
inline double dot_cycles(const MatrixShape& s) {
  return static_cast<double>(s.rows) * static_cast<double>(s.words) / 2;
}

}  // namespace smelt
