// Attention sinks: a learned score of each head that joins the sum of a softmax and brings no value (Xiao et al., arXiv
// 2309.17453, as gpt-oss has them).
//
//   sum exp(s) v / (sum exp(s) + exp(sink))  =  average * d / (d + exp(sink - m)),  m = max s,  d = sum exp(s - m)
#pragma once

#include "graph/tensor.h"

namespace smelt {

// `average` [..., n] is softmax_average of `score` [..., S] over its last axis; sink broadcasts to [..., 1].
// The maximum and the sum are those that the average is made of, so scores are not computed again.
Tensor with_sinks(Tensor average, Tensor score, Tensor sink);

}  // namespace smelt
