// Which items follow others in the tasks of a tile of rows (row_tiles.h): what is made of the rows of one item, or of
// one tile, at the next level. That makes kernels and levels fewer, and what passes between the steps stays on chip.
#pragma once

#include <functional>
#include <unordered_map>

#include "schedule/items.h"

namespace smelt {

struct RowsRequest {
  size_t lowered = 0;                                   // only the first items may follow others
  const std::unordered_map<const Node*, Ref>& buffers;  // that hold the tensors of items
  std::function<Ref(DType, int64_t bytes)> new_local;
};

// Gives all items their levels, and those that follow others a place in the tile of these. Temps that nobody reads any
// more are returned. REQUIRES: items are in an order in which they could run, and have stores.
Refs follow_rows(std::vector<Item>& items, const RowsRequest& request);

}  // namespace smelt
