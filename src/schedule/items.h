// Items: tensors that have a place, and cache writes, on their way into kernels.
#pragma once

#include <algorithm>
#include <vector>

#include "graph/node.h"

namespace smelt {

struct Item {
  Ref node;   // the tensor, Write, or Output that only copies
  Ref store;  // filled in by lowering
  Ref copy;   // the same on chip, for later nests of its tile: see row_tiles.h
  int level = -1;
  bool on_chip = false;
  int tile = -1;           // the tile that it is part of
  int order = 0;           // of its stores in the tile
  std::vector<int> needs;  // items read, in order of index
};

inline bool reads(const Item& item, int source) {
  return std::find(item.needs.begin(), item.needs.end(), source) != item.needs.end();
}

inline bool is_same_tile(const Item& a, const Item& b) { return a.tile >= 0 && a.tile == b.tile; }

// The level at which what an item reads is there: the next one, but an on-chip item happens inside its readers.
inline int level_after(const Item& source) { return source.level + (source.on_chip ? 0 : 1); }

// The level of an item, and those of all that it needs, where they are not known yet. A tile has one level.
int level_of(std::vector<Item>& items, Item& item);

}  // namespace smelt
