#include <algorithm>
#include <iterator>

#include "base/ensure.h"
#include "graph/matrix_shape.h"
#include "graph/operands.h"
#include "schedule/passes.h"

namespace smelt {
namespace {

int64_t greatest_bytes(Ref tensor) { return element_count(tensor->shape)->max * size_of(tensor->dtype); }

Ref buffer_of(Ref output) { return make(Op::Param, output->dtype, {}, {.i = slot_of(output)}, output->shape); }

// Tensors that are segment outputs, and the slots that hold them.
std::unordered_map<const Node*, Ref> output_slots(Ref root) {
  std::unordered_map<const Node*, Ref> slots;
  for (Ref n : toposort(root)) {
    if (n->op != Op::Output) continue;
    const bool is_new = slots.emplace(operand_of(n).get(), buffer_of(n)).second;
    ENSURE(is_new, "one tensor is the output of two slots");
  }
  return slots;
}

Ref new_temp(ScheduleState& state, Ref tensor) {
  state.temps.push_back({.bytes = greatest_bytes(tensor)});
  return make(Op::Temp, tensor->dtype, {}, {.i = static_cast<int64_t>(state.temps.size()) - 1}, tensor->shape);
}

bool is_inside_tile(const ScheduleState& state, Ref tensor) {
  const auto place = state.places.find(tensor.get());
  return place != state.places.end() && place->second == Where::InTile;
}

// Threads side by side that take elements of neighbouring parts meet in one bank of the memory of a block where a part
// fills all banks a whole number of times: so parts are a vector further apart.
int64_t padding_of(int64_t part_bytes, const Machine& machine) {
  const int64_t banks = machine.warp_threads * 4;
  return machine.has_threads() && part_bytes % banks == 0 ? machine.vector_bytes : 0;
}

// Halves of tokens or heads, in a tile, are columns of products by the unit.
bool are_columns(Ref tensor, const std::vector<int64_t>& extents, const Machine& machine) {
  std::vector<int64_t> longer;
  std::copy_if(extents.begin(), extents.end(), std::back_inserter(longer), [](int64_t e) { return e > 1; });
  return tensor->dtype == DType::BF16 && unit_of_warpgroup(machine) && longer.size() > 1 &&
         longer.front() % kFragmentGroups == 0 && longer.back() % kHalvesOfStep == 0;
}

// The part of the tensor that a task of its tile makes.
void place_inside_tile(ScheduleState& state, const Item& item) {
  const Ref n = item.node;
  const PlannedTile& tile = state.tile_of_item(item);
  const bool has_chunks = !contains(tile.sums, n) && !contains(tile.rows, n);
  std::vector<int64_t> extents = extents_in_tile(tile.shape, n, !has_chunks);
  int64_t bytes = size_of(n->dtype);
  for (int64_t e : extents) bytes *= e;
  const auto parts = std::find_if(extents.begin(), extents.end(), [](int64_t e) { return e > 1; });
  const bool in_cores = are_columns(n, extents, state.machine);
  const int64_t count = parts == extents.end() ? 1 : *parts,
                padding = in_cores ? 0 : padding_of(bytes / count, state.machine);
  const Ref local = state.buffers[n.get()] = state.new_local(n->dtype, bytes + (count - 1) * padding);
  // The next step finds there what this one leaves.
  if (tile.scan && tile.scan->next == n) state.lowering.place(tile.scan->left, local, extents, padding);
  state.lowering.place(n, local, std::move(extents), padding, in_cores);
}

}  // namespace

void assign_buffers(ScheduleState& state) {
  const auto outputs = output_slots(state.graph.root);
  for (const Item& item : state.items) {
    const Ref n = item.node;
    const auto output = outputs.find(n.get());
    if (n->op == Op::Write) {
      continue;  // to the buffer that its cache has
    } else if (n->op == Op::Output) {
      state.buffers[n.get()] = buffer_of(n);
    } else if (output == outputs.end() && is_inside_tile(state, n)) {
      place_inside_tile(state, item);
    } else {
      const Ref buffer = output != outputs.end() ? output->second
                         : item.on_chip          ? state.new_local(n->dtype, greatest_bytes(n))
                                                 : new_temp(state, n);
      state.buffers[n.get()] = buffer;
      state.lowering.place(n, buffer);
    }
  }
}

}  // namespace smelt
