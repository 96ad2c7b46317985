// Recognising contractions in a tensor graph, for block_graph.cpp.
#pragma once

#include <optional>
#include <unordered_map>

#include "egraph/block_graph.h"

namespace smelt::egraph {

struct Contraction {
  Tensor x;  // [..., k]
  // Where 8-bit integers stand for x: what was quantised. x is that, or with an axis of 1 more, or rows of it.
  Tensor quantised;
  Ref rows;
  // The right side: the weight of a slot, or the `chosen` of its slowest axis; or a tensor [..., n, k].
  std::optional<int64_t> slot;
  Ref chosen;
  Tensor w;
};

// By the node of its result.
using Contractions = std::unordered_map<const Node*, Contraction>;
Contractions contractions_of(Ref root, const WeightTable& weights);

}  // namespace smelt::egraph
