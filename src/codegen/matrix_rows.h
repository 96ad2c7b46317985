// Rows of products of small matrices: which sums of words are such rows.
#pragma once

#include <string>
#include <vector>

#include "graph/matrix_shape.h"
#include "graph/node.h"

namespace smelt {

// Why a sum is not a row of a product of matrices; empty if it is one. A sum that is one adds products of words (dot4)
// over Unroll ranges, of one side that lanes read, a word each, and another that a Row range steps through.
std::string why_no_matrix_row(Ref sum);

// The sum as a matrix_row of a matrix_dot, summed over its ranges that are loops. REQUIRES: why_no_matrix_row(sum) is
// empty.
Ref matrix_row_of(Ref sum);

// The products that sums of the nest will be rows of, once words are packed (see passes.h); where there are none,
// `why_none` says why.
std::vector<MatrixShape> matrix_products(const Refs& stores, std::string* why_none = nullptr);

}  // namespace smelt
