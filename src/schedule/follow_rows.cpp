#include "schedule/follow_rows.h"

#include <algorithm>
#include <optional>

#include "graph/tensor.h"
#include "schedule/row_tiles.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

// The loop over rows of an item that others follow or may follow.
Ref rows_of(const Item& item) {
  if (item.tile < 0) return loop_over_rows(item.store);
  const Refs ranges = tile_ranges(sink({item.store}));
  return ranges.size() == 1 && tile_of_rows(ranges[0]) == ranges[0] ? ranges[0] : Ref();
}

class RowFollower {
 public:
  RowFollower(std::vector<Item>& items, const RowsRequest& request)
      : items_(items), request_(request) {
    for (const Item& item : items_) tiles_ = std::max(tiles_, item.tile + 1);
  }

  Refs run() {
    for (Item& item : items_) item.level = -1;
    for (size_t i = 0; i < request_.lowered; ++i) {
      (void)level_of(items_, items_[i]);
      if (Item* source = source_to_follow(items_[i])) follow(items_[i], *source);
    }
    for (Item& item : items_) (void)level_of(items_, item);
    for (size_t i = 0; i < request_.lowered; ++i)
      if (items_[i].tile >= 0 && items_[i].store) keep_row_on_chip(static_cast<int>(i));
    return std::move(unread_);
  }

 private:
  // One of those items that the item waits for, if these are one, or of one tile, and it reads only its row of them.
  Item* source_to_follow(const Item& item) const {
    const Ref rows = item.store ? loop_over_rows(item.store) : Ref();
    if (!rows || item.on_chip || item.tile >= 0) return nullptr;
    Item* source = nullptr;
    for (int i : item.needs) {
      Item& need = items_[static_cast<size_t>(i)];
      if (level_after(need) < item.level) continue;
      if (need.on_chip || (source && !is_same_tile(*source, need))) return nullptr;
      source = &need;
    }
    for (int i : item.needs) {
      const Item& need = items_[static_cast<size_t>(i)];
      const bool is_before = source && (&need == source || is_same_tile(*source, need));
      if (is_before && !passes_rows(need, item, rows)) return nullptr;
    }
    return source;
  }

  bool passes_rows(const Item& from, const Item& to, Ref rows) const {
    const Ref buffer = buffer_of(from), loop = from.store ? rows_of(from) : Ref();
    if (!buffer || !loop || tile_of_rows(loop) != tile_of_rows(rows)) return false;
    const auto bytes = bytes_of_row(from.store, loop);
    return bytes && reads_own_row(to.store, buffer, rows, *bytes);
  }

  // In memory; null if there is none.
  Ref buffer_of(const Item& item) const {
    const auto buffer = request_.buffers.find(item.node.get());
    const bool is_in_memory = buffer != request_.buffers.end() && buffer->second->op != Op::Local;
    return is_in_memory ? buffer->second : Ref();
  }

  void follow(Item& item, Item& source) {
    if (source.tile < 0) add_to_tile(source, tiles_++);
    add_to_tile(item, source.tile);
    item.level = source.level;
  }

  void add_to_tile(Item& item, int tile) {
    item.store = in_tile_of_rows(item.store, loop_over_rows(item.store));
    for (const Item& other : items_)
      if (other.tile == tile) item.order = std::max(item.order, other.order + 1);
    item.tile = tile;
  }

  // Where later nests of its tile read what an item stores, these read it on chip.
  void keep_row_on_chip(int index) {
    Item& item = items_[static_cast<size_t>(index)];
    const Ref buffer = buffer_of(item);
    std::vector<Item*> readers;
    bool is_read_elsewhere = false;
    for (Item& other : items_) {
      if (std::find(other.needs.begin(), other.needs.end(), index) == other.needs.end()) continue;
      if (is_same_tile(other, item))
        readers.push_back(&other);
      else
        is_read_elsewhere = true;
    }
    if (readers.empty() || !buffer) return;
    const Ref rows = rows_of(item);
    const Ref local = request_.new_local(item.node->dtype, *bytes_of_row(item.store, rows));
    for (Item* reader : readers) reader->store = read_on_chip(reader->store, buffer, local, rows);
    item.copy = store_on_chip(item.store, local, rows);
    if (is_read_elsewhere || buffer->op != Op::Temp) return;
    item.store = item.copy;
    item.copy = Ref();
    unread_.push_back(buffer);
  }

  std::vector<Item>& items_;
  const RowsRequest& request_;
  int tiles_ = 0;
  Refs unread_;
};

}  // namespace

Refs follow_rows(std::vector<Item>& items, const RowsRequest& request) {
  return RowFollower(items, request).run();
}

}  // namespace smelt
