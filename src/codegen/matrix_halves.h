// Sums of products of halves as elements of products by the unit of a warpgroup (graph/matrix_shape.h).
//
// Options put the outputs where the unit leaves its sums. Rows are those of weights, which threads make halves of, and
// columns the tokens, whose halves lie in memory as the unit wants them on chip (place_halves()):
//
//   upcast(n, 2) local(n, 4) upcast(n, 8) local(m, 8) unroll(k, 128) matrix(m, 2) local(m, 8)     64 columns, 128 rows
#pragma once

#include <string>

#include "graph/node.h"

namespace smelt {

// Why no sum of the nest can be such an element yet: "" if warps are all that it wants (option LOCAL), or nothing.
std::string why_no_halves(const Refs& stores);

// The pass: sums that are such elements become them. Their columns are in memory: stage_reads() brings them on chip,
// and without it there is no such product.
Refs halves_dots(const Refs& stores);

}  // namespace smelt
