// Splitting long reductions, so that they can run in parallel and in any order of arrival.
//
//   reduce(x[.., chunks * 256], axis)  ->  reduce(partial(x[.., chunks, 256], axis + 1), axis)
//
// A reduction is split when the length of its axis is a multiple, known only at launch, of a constant chunk. The chunk
// is part of the graph and not of the machine, so results do not depend on the number of workers. It works for every
// monoid: sums and maxima combine as themselves; an online softmax keeps (max, scaled sum) per chunk, and these combine
// as an online softmax whose scores are the chunk maxima.
//
// Inside a chunk, which has a known length, an online softmax becomes the plain one: scores, their maximum, weights,
// sums of weighted values. All of that is the work of one task, with scores and weights on chip (tiles.h).
#pragma once

#include <map>
#include <unordered_set>

#include "base/machine.h"
#include "graph/node.h"

namespace smelt {

// Tensors that are computed chunk by chunk: [leading..., chunks, ...], equal in the leading axes.
struct TileTensors {
  int axis = 0;       // that of the chunks
  int64_t chunk = 0;  // their length
  Refs inner;         // scores (first), maxima and weights: nothing but the tile reads them
  Refs rows;          // what the scores of all chunks are made of, with a place: halves, as a unit wants them on chip
  Refs results;       // partials
  Refs sums;          // online softmaxes over the chunks, which combine these, and maxima over the chunks
};

struct SplitGraph {
  Ref root;
  std::unordered_set<const Node*> partials;  // tensors that must have a buffer: one value per chunk
  std::vector<TileTensors> tiles;
};

// What is left out at the end of a chunk is left out in steps of so many positions, which options can divide.
constexpr int64_t kLimitStep = 16;

SplitGraph split_reduce(Ref root, const Machine& machine);

}  // namespace smelt
