// Products of small matrices of bytes (matrix_dot, graph/matrix_shape.h) in the Metal Shading Language.
//
// SIMD groups multiply matrices of 8 by 8 halves and add up floats. Halves hold every byte, and floats every sum of 32
// products of them, so the sums are those of integers, to the last bit. A matrix lies in the registers of a SIMD group,
// two neighbours of a row in each thread (`thread_elements()`); threads get what they need for that from those that
// hold it as words. In which thread which elements are is not in Apple's manual, but the same on all GPUs so far:
//
//   row 4 (lane / 16) + lane / 2 % 4, columns 4 (lane / 8 % 2) + 2 (lane % 2) and the next one
#pragma once

#include <string>

#include "graph/matrix_shape.h"
#include "render/msl_text.h"

namespace smelt {

// The name of a function of the words of a, those of b, the sums so far (as one vector), and the thread's number, now
// part of the text. It gives such a vector of sums.
// REQUIRES: the shape is one of bytes in fragments, of 8 or 16 rows.
std::string msl_matrix_product(const MatrixShape& shape, MslPreamble& preamble);

// A thread's sums as one value: int2, int4.
std::string msl_sums_type(const MatrixShape& shape);

}  // namespace smelt
