#include <algorithm>

#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/tensor.h"
#include "graph/views.h"
#include "schedule/operations.h"
#include "schedule/passes.h"

namespace smelt {
namespace {

class StoreOnce {
 public:
  explicit StoreOnce(ScheduleState& state) : state_(state) {}

  void run() {
    const int count = static_cast<int>(state_.item_of.size());  // behind these are stores that tiles have added
    for (int i = 0; i < count; ++i) {
      const Item& item = state_.item(i);
      if (!item.on_chip || !item.store || item.tile >= 0) continue;
      set_level(i);
      if (!has_spare_level(i)) take_level_of_sources(i);
      if (has_spare_level(i))
        store_in_memory(i);
      else
        store_for_later_readers(i);
    }
  }

 private:
  void set_level(int index) {
    int level = 0;
    for (int i : state_.item(index).needs) level = std::max(level, level_after(state_.item(i)));
    state_.item(index).level = level;
  }

  std::vector<int> readers_of(int index) const {
    std::vector<int> readers;
    for (int i = 0; i < static_cast<int>(state_.items.size()); ++i)
      if (reads(state_.item(i), index)) readers.push_back(i);
    return readers;
  }

  // Of the first kernel that an item is computed in.
  int first_level(int index) const {
    const Item& item = state_.item(index);
    if (!item.on_chip) return item.level;
    int level = INT32_MAX;
    for (int i : readers_of(index)) level = std::min(level, first_level(i));
    return level;
  }

  bool has_spare_level(int index) const { return first_level(index) > state_.item(index).level; }

  // What an item reads of the level before its own is computed on chip for it, if all of that is small.
  void take_level_of_sources(int index) {
    std::vector<int> last;
    for (int i : state_.item(index).needs) {
      if (level_after(state_.item(i)) < state_.item(index).level) continue;
      if (!may_go_on_chip(i) || state_.item(i).level >= first_level(index)) return;
      last.push_back(i);
    }
    for (int i : last) {
      if (readers_of(i).size() == 1)
        keep_on_chip(i);
      else
        let_read(index, i, copy_of(i, true));
    }
    set_level(index);
  }

  bool may_go_on_chip(int index) const {
    const Item& item = state_.item(index);
    const Ref buffer = buffer_of(item);
    return !item.on_chip && item.store && !item.copy && item.tile < 0 && buffer && buffer->op == Op::Temp &&
           bytes_of(item) <= state_.machine.local_bytes &&
           operations_of(item.store) <= static_cast<double>(state_.machine.small_kernel_local_operations);
  }

  // Readers at its own level have it on chip, those of later levels need not make it again.
  void store_for_later_readers(int index) {
    std::vector<int> later;
    for (int i : readers_of(index))
      if (first_level(i) > state_.item(index).level) later.push_back(i);
    if (later.empty()) return;
    const int copy = copy_of(index, false);
    for (int i : later) let_read(i, index, copy);
  }

  void keep_on_chip(int index) {
    empty_temp(buffer_of(state_.item(index)));
    move(index, new_buffer(index, true));
    state_.item(index).on_chip = true;
  }

  void store_in_memory(int index) {
    move(index, new_buffer(index, false));
    state_.item(index).on_chip = false;
  }

  void empty_temp(Ref temp) { state_.temps[static_cast<size_t>(number_of_buffer(temp))].bytes = 0; }

  Ref new_buffer(int index, bool on_chip) {
    const Item& item = state_.item(index);
    if (on_chip) return state_.new_local(item.node->dtype, bytes_of(item));
    state_.temps.push_back({.bytes = bytes_of(item)});
    return make(Op::Temp, item.node->dtype, {}, {.i = static_cast<int64_t>(state_.temps.size()) - 1}, item.node->shape);
  }

  void move(int index, Ref to) {
    const Ref from = buffer_of(state_.item(index));
    for (Item& item : state_.items)
      replace_buffer(item, from, to);  // stores that tiles have added name few of their needs
    state_.buffers[state_.item(index).node.get()] = to;
  }

  // The same once more, in another place.
  int copy_of(int index, bool on_chip) {
    Item copy = state_.item(index);
    copy.on_chip = on_chip;
    const StoreView store(copy.store);
    copy.store = make_store(new_buffer(index, on_chip), store.offset, store.value, own_ranges(copy.store));
    state_.items.push_back(std::move(copy));
    return static_cast<int>(state_.items.size()) - 1;
  }

  void let_read(int reader, int index, int copy) {
    std::vector<int>& needs = state_.item(reader).needs;
    std::replace(needs.begin(), needs.end(), index, copy);
    replace_buffer(state_.item(reader), buffer_of(state_.item(index)), StoreView(state_.item(copy).store).buffer);
  }

  static void replace_buffer(Item& item, Ref from, Ref to) {
    for (Ref* store : {&item.store, &item.copy})
      if (*store) *store = substitute(*store, {{from, to}});
  }

  // Null for a write to a cache.
  Ref buffer_of(const Item& item) const {
    const auto known = state_.buffers.find(item.node.get());
    return known == state_.buffers.end() ? Ref() : known->second;
  }

  static int64_t bytes_of(const Item& item) { return element_count(item.node->shape)->max * size_of(item.node->dtype); }

  ScheduleState& state_;
};

}  // namespace

void store_once(ScheduleState& state) {
  if (state.machine.has_threads()) StoreOnce(state).run();
}

}  // namespace smelt
