// Splitting long reductions, so that they can run in parallel and in any order of arrival.
//
//   reduce(x[.., chunks * 256], axis)  ->  reduce(partial(x[.., chunks, 256], axis + 1), axis)
//
// A reduction is split when the length of its axis is a multiple, known only at launch, of a constant chunk. The chunk
// is part of the graph and not of the machine, so results do not depend on the number of workers. It works for every
// monoid: sums and maxima combine as themselves; an online softmax keeps (max, scaled sum) per chunk, and these combine
// as an online softmax whose scores are the chunk maxima.
#pragma once

#include <unordered_set>

#include "graph/node.h"

namespace smelt {

struct SplitGraph {
  Ref root;
  std::unordered_set<const Node*> partials;  // tensors that must have a buffer: one value per chunk
};

SplitGraph split_reduce(Ref root);

}  // namespace smelt
