#include "schedule/items.h"

#include <algorithm>

namespace smelt {

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

}  // namespace smelt
