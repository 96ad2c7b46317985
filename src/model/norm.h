// Norms over the last axis.
#pragma once

#include "graph/line.h"
#include "graph/tensor.h"

namespace smelt {

// Rows of length 1 in the mean of squares.
Tensor normalised(Tensor x, double epsilon, Line line = Line::current());
Tensor rms_norm(Tensor x, Tensor w, double epsilon, Line line = Line::current());

}  // namespace smelt
