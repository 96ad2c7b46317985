// Which tensors get memory, and where: the fusion decision.
//
// A tensor without a place is recomputed wherever it is used, as part of the kernel that uses it. That is free for
// movement, cheap for elementwise work and a win for dequantisation (the quantised bytes are the smaller thing to
// read), but a reduction must not be repeated. So a tensor gets a place when
//   - a segment output, a partial result of a split reduction, a cache write or the model (place) asks for it,
//   - it holds a reduction and kernels of more than one other placed tensor would repeat it,
//   - it is spread over an axis of a later contraction (every row of a matrix reads all of it), unless reading its
//     sources again moves fewer bytes, as for quantised weights,
//   - it holds a reduction and is read through a gather.
// A place is on-chip (Local: each worker computes it for itself) when that costs less than one more level,
// otherwise memory (Temp).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/machine.h"
#include "graph/node.h"
#include "schedule/split_reduce.h"

namespace smelt {

enum class Where : uint8_t {
  Memory,
  OnChip,  // all of it, by every worker for itself
  InTile,  // part by part, by the task that reads the part: see tiles.h
};

// What was decided for a tensor that could have a place, and why.
struct PlaceDecision {
  Ref tensor;
  std::optional<Where> where;  // nothing: it is computed again wherever it is read
  std::string why;             // a sentence without its full stop
};
using PlaceObserver = std::function<void(const PlaceDecision&)>;

// Every tensor that gets a place, Output sources, partials and the insides of tiles included. `observe` is told of each
// tensor that could have one, once all is decided, in the order of the graph.
std::unordered_map<const Node*, Where> choose_places(const SplitGraph& split, const Machine& machine,
                                                     const PlaceObserver& observe = {});

}  // namespace smelt
