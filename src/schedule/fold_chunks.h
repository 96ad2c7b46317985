// Tiles that go over all chunks of their rows.
//
//   a tile for each chunk     partial results in memory, which another kernel combines
//   a tile for all chunks     for each chunk { scores .. sums; keep and gain; running sums }; what is made of the sums
//
// Few rows need the chunks to give every worker something to do. Many rows do not: then the maximum and the sums of the
// chunks so far stay on chip, and partial results never reach memory. With m the maximum so far and t that of a chunk:
//
//   keep = exp(m - max(m, t)),  gain = exp(t - max(m, t)),  sum = sum * keep + part * gain,  m = max(m, t)
//
// Chunks come in order, so results do not depend on the number of workers.
#pragma once

#include <optional>
#include <unordered_map>

#include "graph/views.h"
#include "schedule/lower.h"
#include "schedule/placement.h"
#include "schedule/tiles.h"

namespace smelt {

// The placed tensors that the tile's sums over chunks end in, if it may go over the chunks by itself: there are many
// rows, and nothing but these tensors, which have the same rows, is made of the sums.
std::optional<Refs> ends_of_sums(const TileTensors& tile, const TileShape& shape, Ref root,
                                 const std::unordered_map<const Node*, Where>& places);

// The maximum of a chunk, which `sum` (of TileTensors::sums) combines.
Ref maximum_below(Ref sum);

// On-chip buffers of a tile that goes over chunks, each laid out like that of the maximum of a chunk.
struct RunningBuffers {
  Ref maximum, keep, gain;
};

struct FoldStores {
  Refs before;  // the chunks: no maximum yet, sums of zero
  Refs chunk;   // the last steps of a chunk
};

// REQUIRES: `maxima` stores the maximum of a chunk where it is placed, as are the sums.
FoldStores fold_stores(Lowering& lowering, const StoreView& maxima, const Refs& sums, int axis,
                       const RunningBuffers& running);

}  // namespace smelt
