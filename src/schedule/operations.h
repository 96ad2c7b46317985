// How much a store computes.
#pragma once

#include "graph/node.h"

namespace smelt {

// Scalar operations of a store: those of each node for all values of the ranges that it varies along. Where a size is
// not known, for as many as there may be.
double operations_of(Ref store);

}  // namespace smelt
