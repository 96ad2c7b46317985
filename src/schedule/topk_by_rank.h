// The greatest elements of a row by their ranks, which threads of a block can count at the same time, where a TopK
// walks through the row with one.
//
//   top_k(x)[j]  ->  sum over i of i * (rank[i] = j),   rank[i] = how many elements stand before x[i]
//
// An element stands before another if it is greater, or equal and of lower index; what is no number comes last.
#pragma once

#include "base/machine.h"
#include "graph/node.h"

namespace smelt {

Ref topk_by_rank(Ref root, const Machine& machine);

}  // namespace smelt
