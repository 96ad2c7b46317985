// Sums of products of bytes as elements of products whose matrices lie in the registers of a warp (option MATRIX on
// machines with threads; graph/matrix_shape.h).
//
// Options put the outputs where the unit leaves its sums, and the unit takes words from the threads that it wants them
// from, so each thread loads other elements than those that it stores:
//
//   upcast(n, 2) local(n, 4) local(m, 8) dot(k, 4) unroll(k, 8) matrix(m, 2)      for m16n8k32
#pragma once

#include <string>

#include "base/machine.h"
#include "graph/node.h"

namespace smelt {

// Why no sum of the nest, once words are packed (see passes.h), is an element of a product; empty if one is.
std::string why_no_fragments(const Refs& stores, const MatrixUnit& unit);

// The pass: sums that are such elements become them.
Refs fragment_dots(const Refs& stores, const MatrixUnit& unit);

}  // namespace smelt
