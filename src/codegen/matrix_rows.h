// Rows of products of small matrices: which sums of words are such rows.
#pragma once

#include <string>
#include <vector>

#include "base/machine.h"
#include "codegen/opt.h"
#include "graph/matrix_shape.h"
#include "graph/node.h"

namespace smelt {

// Instructions of a product, one after the other along k: the sums stay in the unit over all of them.
constexpr int64_t kMatrixSteps = 4;  // that the heuristic takes: what is as long as a block of weights
constexpr int64_t kMostMatrixSteps = 64;
constexpr int64_t kMostMatrixBlocks = 4;  // whose sums a unit of halves keeps side by side

// Words of a row that an instruction takes.
inline int64_t words_at_once(const MatrixUnit& unit) { return unit.k / kBytesOfWord; }

// Why a sum is not a row of a product of matrices in memory; empty if it is one. A sum that is one adds products of
// words (dot4) over Unroll ranges, of one side that lanes read, a word each, and another that a MatrixRow range walks.
// Or products of halves, two of a word by an Unroll range of their own: then another MatrixRow range may walk blocks of
// the lanes' side.
std::string why_no_matrix_row(Ref sum, const LaneRules& rules);

// The sum as a matrix_row of a matrix_dot, summed over its ranges that are loops. REQUIRES: why_no_matrix_row() is
// empty.
Ref matrix_row_of(Ref sum, const LaneRules& rules);

// What rows of products take on chip, where the unit leaves them, once everything is written out: at most.
int64_t matrix_row_bytes(const Refs& stores);

// The products that sums of the nest will be rows of, once words are packed (see passes.h); where there are none,
// `why_none` says why.
std::vector<MatrixShape> matrix_products(const Refs& stores, const LaneRules& rules, std::string* why_none = nullptr);

}  // namespace smelt
