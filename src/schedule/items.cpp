#include "schedule/items.h"

#include <algorithm>
#include <functional>
#include <set>

#include "graph/operands.h"
#include "schedule/passes.h"

namespace smelt {
namespace {

bool is_item(const ScheduleState& state, Ref n) {
  const bool copies = n->op == Op::Output && !state.places.contains(operand_of(n).get());
  return copies || n->op == Op::Write || state.places.contains(n.get());
}

// The items that a tensor is made of: a walk that stops at other items.
std::vector<int> needs_of(const ScheduleState& state, Ref tensor) {
  std::set<int> needs;
  std::set<const Node*> seen;
  const std::function<void(Ref)> visit = [&](Ref n) {
    if (!seen.insert(n.get()).second) return;
    const auto known = state.item_of.find(n.get());
    if (n != tensor && known != state.item_of.end()) {
      needs.insert(known->second);
      // A chain of writes to one buffer: reading it needs all of them.
      if (n->op == Op::Write && WriteView(n).buffer->op == Op::Write) visit(WriteView(n).buffer);
      return;
    }
    for (size_t i = 0; i < n->src.size(); ++i) {
      const bool earlier_rows = n->op == Op::Write && i == 0;  // other rows of the buffer are not read
      if (!earlier_rows) visit(n->src[i]);
    }
  };
  visit(tensor);
  return {needs.begin(), needs.end()};
}

}  // namespace

int level_of(std::vector<Item>& items, Item& item) {
  if (item.level >= 0) return item.level;
  std::vector<Item*> same{&item};
  for (Item& other : items)
    if (&other != &item && is_same_tile(other, item)) same.push_back(&other);
  int level = 0;
  for (const Item* member : same)
    for (int i : member->needs) {
      Item& source = items[static_cast<size_t>(i)];
      if (is_same_tile(source, item)) continue;
      (void)level_of(items, source);
      level = std::max(level, level_after(source));
    }
  for (Item* member : same) member->level = level;
  return level;
}

void collect_items(ScheduleState& state) {
  for (Ref n : toposort(state.graph.root)) {
    if (!is_item(state, n)) continue;
    const int number = static_cast<int>(state.items.size());
    const auto place = state.places.find(n.get());
    Item item{.node = n, .on_chip = place != state.places.end() && place->second == Where::OnChip};
    if (const auto tile = state.tile_of.find(n.get()); tile != state.tile_of.end()) {
      item.tile = tile->second;
      state.tiles[static_cast<size_t>(item.tile)].members.push_back(number);
    }
    state.item_of[n.get()] = number;
    state.items.push_back(std::move(item));
  }
}

void find_needs(ScheduleState& state) {
  for (Item& item : state.items) item.needs = needs_of(state, item.node);
}

}  // namespace smelt
