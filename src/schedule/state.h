// What the steps of a schedule (passes.h) hand on. A step fills in its part and reads those above it; where it changes
// one of them, its line in passes.h says so.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/views.h"
#include "schedule/items.h"
#include "schedule/lower.h"
#include "schedule/memory_plan.h"
#include "schedule/placement.h"
#include "schedule/scans.h"
#include "schedule/schedule.h"
#include "schedule/tiles.h"

namespace smelt {

// A tile on its way into a kernel.
struct PlannedTile {
  TileShape shape;
  Ref scores;
  Refs rows;                          // TileTensors::rows
  Refs sums, ends;                    // if it has all chunks: see fold_chunks.h
  const ScanTensors* scan = nullptr;  // whose steps are its chunks
  std::vector<int> members;           // items, in order
};

struct ScheduleState {
  const Machine& machine;  // that the kernels are for
  SplitGraph graph;
  std::vector<ScanTensors> scans;
  std::unordered_map<const Node*, Where> places;

  std::vector<PlannedTile> tiles;
  std::unordered_map<const Node*, int> tile_of;  // of tensors inside of tiles

  std::vector<Item> items;  // those of tensors first, in an order in which they could run
  std::unordered_map<const Node*, int> item_of;

  std::unordered_map<const Node*, Ref> buffers;  // of items
  std::vector<Lifetime> temps;                   // by number
  int64_t locals = 0;                            // numbers taken
  Lowering lowering;                             // knows the buffers

  Schedule schedule;

  Item& item(int number) { return items[static_cast<size_t>(number)]; }
  const Item& item(int number) const { return items[static_cast<size_t>(number)]; }
  const PlannedTile& tile_of_item(const Item& item) const { return tiles[static_cast<size_t>(item.tile)]; }

  // Null if an item has none.
  Ref memory_of(const Item& item) const {
    const auto buffer = buffers.find(item.node.get());
    return buffer != buffers.end() && buffer->second->op != Op::Local ? buffer->second : Ref();
  }

  Ref new_local(DType dtype, int64_t bytes) { return make_local(locals++, dtype, bytes); }
};

}  // namespace smelt
