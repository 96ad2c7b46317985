// What a matrix unit makes of a row and a column, for every evaluator.
#pragma once

#include <cstdint>
#include <span>

#include "graph/matrix_shape.h"

namespace smelt {

// `sum` and the products of the words of a row of `a` with those of a column of `b`: i32, wraps. REQUIRES:
// shape.words() of both.
int64_t matrix_sum(const MatrixShape& shape, int64_t sum, std::span<const uint32_t> a, std::span<const uint32_t> b);

// The same for words of two halves: f32, here in double.
double sum_of_halves(double sum, std::span<const uint32_t> a, std::span<const uint32_t> b);

}  // namespace smelt
