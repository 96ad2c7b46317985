// Tiles: steps that follow each other inside one task, with what passes between them on chip.
//
//   kernel A: x = f(a)       kernel: for each task { local x = f(part of a); y = g(local x) }
//   kernel B: y = g(x)
//
// A chunk of an attention is a tile: scores, maximum, weights, sums. Its nests stand one after the other in the
// kernel, and their stores begin with the same ranges of kind Tile, which are shared out among the workers; inside,
// each nest has loops and options of its own. How much of the leading axes is inside a tile changes no result.
//
// With many rows a tile goes over all chunks of its rows (fold_chunks.h): its nests are those before the chunks, those
// of a chunk, which have one more range in common, of kind Chunk, and those after.
#pragma once

#include "base/machine.h"
#include "schedule/split_reduce.h"

namespace smelt {

// How a tile divides the leading axes of its tensors.
struct TileShape {
  int axis = 0;                  // of the chunks: one a tile
  int64_t chunk = 0;             // length of a chunk
  std::vector<int64_t> extents;  // inside a tile, for axes 0 .. axis: a divisor of the axis, or all
  bool has_all_chunks = false;   // goes over the chunks, one at a time
  int64_t step = kLimitStep;     // of which a limit of positions is a multiple
  bool copies_columns = false;   // what its products read of each row goes on chip first (copy_columns.h)
};

// Blocks of a unit's columns in a tile of few tokens, at most: their sums have room in the registers of a thread.
constexpr int64_t kMostBlocksOfColumns = 3;

// Chunks of a context up to which a tile of bytes has as many of `heads` that read the same keys as the unit of a warp
// has columns. Of longer ones processors have several such tiles in turn, each of which reads all keys and values, so
// that fewer tiles of more heads are sooner done: these are wide. The greatest number where nothing is, as there is no
// such unit, no more than one tile, or no room for a wide one.
int64_t wide_chunks(const Machine& machine, int64_t tokens, int64_t heads);

// Rows of neighbouring axes come inside, from the last axis on, as long as a tensor of them stays within
// Machine::tile_bytes and a chunk has Machine::chunk_tasks left to share out; where tokens are few, at most
// Machine::tile_rows, and in a context of up to Machine::short_context as few as leave a task to each processor. Where
// threads have a unit for products of bytes, its columns are tokens of a prompt, which come first, or heads of a token;
// beyond wide_chunks(), and of products of halves, they are all heads of a token that there is room for.
TileShape shape_of_tile(const TileTensors& tile, const Machine& machine);

// Sizes along all axes of the part of `tensor` that a tile holds; a combination of chunks has no axis of them.
// REQUIRES: the axes behind the chunks are constant.
std::vector<int64_t> extents_in_tile(const TileShape& shape, Ref tensor, bool is_combined = false);

// The stores of a tile.
struct TileStores {
  Refs before;   // the chunks, or the one that the tile has
  Refs chunk;    // scores first
  Refs combine;  // what a chunk leaves to the next one: if the tile has all of them
  Refs after;    // the last chunk
};

// The stores, as lowered one by one, with the loops that they share as Tile and Chunk ranges. Scores that a mask drops
// at the end of a chunk are not computed, and chunks that it drops in all rows of a tile are left out.
TileStores share_loops(const TileShape& shape, const TileStores& stores, const Machine& machine);

// --- Of a nest, by its stores

// Its Tile ranges; empty if it is not part of a tile.
Refs tile_ranges(const Refs& stores);

// The loop over chunks that it is in; null if it is in none.
Ref chunk_range(const Refs& stores);

// Whether it goes over all of its tasks several times (streams.h). Such a nest runs by itself.
bool goes_in_sweeps(const Refs& stores);

// Whether two neighbouring nests are of one tile: they run one after the other in each of its tasks.
bool run_together(const Refs& stores, const Refs& others);

}  // namespace smelt
