// What a matrix unit makes of a row and a column: the order of its sums, for every evaluator.
#pragma once

#include <cstdint>
#include <span>

#include "graph/matrix_shape.h"
#include "graph/scalar_math.h"

namespace smelt {

// Elements along k that one instruction of a unit for halves in memory adds up: 16 words, a row of a tile.
constexpr int64_t kHalvesOfStep = 32;

// `sum` and the products of the words of a row of `a` with those of a column of `b`. REQUIRES: shape.words() of both.
//
// Bytes: i32, wraps, so there is no order.
// Halves in memory: bit for bit what tdpbf16ps is documented to do. The products of even places are added up one after
// the other, from zero, each rounded once, those of odd places as well; then both sums, then what was there. Numbers
// below the least normal one are zero. Longer products are steps of kHalvesOfStep.
// Halves in fragments: makers document no order and no rounding. All is added up in double and rounded once; a unit
// may differ by kFragmentError of the sum of all magnitudes.
Scalar matrix_sum(const MatrixShape& shape, Scalar sum, std::span<const uint32_t> a, std::span<const uint32_t> b);

constexpr double kFragmentError = 1.0 / (1 << 20);

}  // namespace smelt
