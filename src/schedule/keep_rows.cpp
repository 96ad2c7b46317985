#include "schedule/passes.h"
#include "schedule/row_tiles.h"

namespace smelt {
namespace {

void keep_row(ScheduleState& state, int index) {
  Item& item = state.item(index);
  const Ref buffer = state.memory_of(item);
  std::vector<Item*> readers;
  bool is_read_elsewhere = false;
  for (Item& other : state.items) {
    if (!reads(other, index)) continue;
    if (is_same_tile(other, item))
      readers.push_back(&other);
    else
      is_read_elsewhere = true;
  }
  const Ref rows = shared_rows(item.store);
  if (readers.empty() || !buffer || !rows) return;
  const BufferRow row = *row_of_buffer(item.store, rows, state.machine.row_bytes);
  const Ref local = state.new_local(item.node->dtype, row.bytes());
  for (Item* reader : readers) reader->store = read_on_chip(reader->store, buffer, local, row);
  item.copy = store_on_chip(item.store, local, row);
  if (is_read_elsewhere || buffer->op != Op::Temp) return;
  item.store = item.copy;
  item.copy = Ref();
  state.temps[static_cast<size_t>(number_of_buffer(buffer))].bytes = 0;
}

}  // namespace

void keep_rows(ScheduleState& state) {
  const int tensors = static_cast<int>(state.item_of.size());  // behind these are stores that tiles have added
  for (int i = 0; i < tensors; ++i)
    if (state.item(i).tile >= 0 && state.item(i).store) keep_row(state, i);
}

}  // namespace smelt
