#include "graph/operands.h"
#include "graph/views.h"
#include "schedule/copy_columns.h"
#include "schedule/fold_chunks.h"
#include "schedule/passes.h"
#include "schedule/scans.h"

namespace smelt {
namespace {

// Numbers of a tile's items that have a store.
struct TileItems {
  std::vector<int> before;
  std::vector<int> chunk;  // scores first
  std::vector<int> after;
};

TileItems items_of(const ScheduleState& state, const PlannedTile& tile) {
  TileItems out;
  for (int i : tile.members) {
    const Item& item = state.item(i);
    if (contains(tile.ends, item.node))
      out.after.push_back(i);
    else if (contains(tile.rows, item.node))
      out.before.push_back(i);
    else if (item.store && item.node == tile.scores)
      out.chunk.insert(out.chunk.begin(), i);
    else if (item.store)
      out.chunk.push_back(i);
  }
  return out;
}

Refs stores_of(const ScheduleState& state, const std::vector<int>& items) {
  Refs stores;
  for (int i : items) stores.push_back(state.item(i).store);
  return stores;
}

void add_fold(ScheduleState& state, const PlannedTile& tile, TileStores& stores) {
  const Ref maximum = maximum_below(tile.sums[0]);
  const StoreView maxima(state.item(state.item_of.at(maximum.get())).store);
  const auto local = [&] { return state.new_local(DType::F32, local_bytes(maxima.buffer)); };
  const RunningBuffers running{.maximum = local(), .keep = local(), .gain = local()};
  FoldStores fold = fold_stores(state.lowering, maxima, tile.sums, tile.shape.axis, running);
  stores.before.insert(stores.before.end(), fold.before.begin(), fold.before.end());
  stores.combine = std::move(fold.chunk);
}

void copy_columns_of(ScheduleState& state, const TileShape& shape, TileStores& stores) {
  Ref& scores = stores.chunk.front();
  CopiedColumns copied =
      copy_columns(scores, shape.axis, [&](int64_t bytes) { return state.new_local(DType::I32, bytes); });
  scores = copied.store;
  stores.before.insert(stores.before.end(), copied.copies.begin(), copied.copies.end());
}

// The items of a tile get their stores, and stores that belong to no item yet get one.
void put_in_order(ScheduleState& state, const TileItems& items, const TileStores& stores) {
  const Item like = state.item(items.chunk[0]);
  int order = 0;
  const auto append = [&](const Refs& more) {
    for (Ref store : more) {
      state.items.push_back(like);
      state.items.back().store = store;
      state.items.back().order = order++;
    }
  };
  const auto set = [&](const std::vector<int>& members, const Refs& in_order) {
    for (size_t i = 0; i < members.size(); ++i) {
      Item& item = state.item(members[i]);
      item.store = in_order[i];
      item.order = order++;
    }
  };
  set(items.before, stores.before);
  append({stores.before.begin() + static_cast<ptrdiff_t>(items.before.size()), stores.before.end()});
  set(items.chunk, stores.chunk);
  append(stores.combine);
  set(items.after, stores.after);
}

Ref lowered(ScheduleState& state, const Item& item) {
  const Ref n = item.node;
  if (n->op == Op::Write && item.tile >= 0) return store_written(state.lowering, *state.tile_of_item(item).scan, n);
  // The sums of a tile have several stores: see add_fold().
  if (item.tile >= 0 && contains(state.tile_of_item(item).sums, n)) return Ref();
  if (n->op == Op::Write) return state.lowering.store_rows(n);
  return state.lowering.store(n->op == Op::Output ? operand_of(n) : n, state.buffers.at(n.get()));
}

}  // namespace

void lower_items(ScheduleState& state) {
  for (Item& item : state.items) item.store = lowered(state, item);
}

void join_tiles(ScheduleState& state) {
  for (const PlannedTile& tile : state.tiles) {
    const TileItems items = items_of(state, tile);
    TileStores stores{.before = stores_of(state, items.before),
                      .chunk = stores_of(state, items.chunk),
                      .combine = {},
                      .after = stores_of(state, items.after)};
    if (tile.scan) {
      stores.before = {store_before(state.lowering, *tile.scan)};
      reuse_buffers(stores.before, stores.chunk);
    } else if (tile.shape.has_all_chunks) {
      add_fold(state, tile, stores);
    }
    TileStores in_tile = share_loops(tile.shape, stores, state.machine);
    if (tile.shape.copies_columns) copy_columns_of(state, tile.shape, in_tile);
    put_in_order(state, items, in_tile);
  }
}

}  // namespace smelt
