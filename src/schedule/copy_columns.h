// The columns of a tile's products, on chip: what all warps of a block multiply with, as the queries of all heads, is
// copied there once, before the first nest that reads it.
//
//   scores[head, position] = sum(query[head, k] * key[position, k]; k)
//   ->  copy[k, head] = query[head, k];  scores[head, position] = sum(copy[k, head] * key[position, k]; k)
//
// What lies together of a column stays together, in a run; runs of all columns lie side by side, so that the threads of
// a fragment read neighbouring bytes.
#pragma once

#include <functional>

#include "graph/node.h"

namespace smelt {

struct CopiedColumns {
  Refs copies;  // stores of the same tile, to stand in front
  Ref store;    // that reads them
};

// Of a store in a tile of one chunk, whose number is the axis `chunks`, with its columns as the first loop: what it
// reads of memory for each of these and for no other loop; nothing where that is little. `new_local`: on-chip memory of
// so many bytes.
CopiedColumns copy_columns(Ref store, int chunks, const std::function<Ref(int64_t bytes)>& new_local);

}  // namespace smelt
