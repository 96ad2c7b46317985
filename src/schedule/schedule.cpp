#include "schedule/schedule.h"

#include <algorithm>
#include <map>

#include "graph/on_chip.h"
#include "graph/operands.h"
#include "graph/tensor.h"
#include "graph/views.h"
#include "schedule/passes.h"
#include "schedule/topk_by_rank.h"

namespace smelt {
namespace {

std::string describe_store(const StoreView& store) {
  std::string ops;
  for (Ref n : toposort(store.value)) {
    if (!is_reduce(n->op)) continue;
    if (!ops.empty()) ops += "+";
    ops += name_of(n->op);
  }
  if (ops.empty()) ops = name_of(store.value->op);
  std::string sizes;
  for (Ref r : store.ranges) {
    if (!sizes.empty()) sizes += ",";
    const auto n = const_int(RangeView(r).size);
    sizes += n ? std::to_string(*n) : "?";
  }
  return (store.buffer->op == Op::Local ? "local " : "") + ops + "[" + sizes + "]";
}

}  // namespace

const Refs& nests_of(const Kernel& kernel) { return kernel.tree->src; }
bool is_local_nest(Ref nest) {
  return StoreView(stores_of(nest)[0]).buffer->op == Op::Local && tile_ranges(stores_of(nest)).empty();
}

namespace {

// On-chip items are computed by every kernel that reads them.
void tell_items(const ScheduleState& state, const ScheduleObserver& observe) {
  if (!observe.item) return;
  std::map<int, int> kernel_of;  // by level
  for (const Kernel& k : state.schedule.kernels) kernel_of.emplace(k.level, static_cast<int>(kernel_of.size()));
  for (const Item& item : state.items) {
    const auto kernel = kernel_of.find(item.level);
    const auto buffer = state.buffers.find(item.node.get());
    if (kernel != kernel_of.end())
      observe.item(item.node, buffer == state.buffers.end() ? Ref() : buffer->second, kernel->second);
  }
}

// Whether what was to be made ahead of its reader has nothing beside it: blocks of threads would wait for one launch
// more. On processors products are read one after the other, and a barrier costs little.
bool has_place_alone(const ScheduleState& state) {
  if (!state.machine.has_threads()) return false;
  const auto is_alone = [&](const Item& item) {
    return std::all_of(state.items.begin(), state.items.end(), [&](const Item& other) {
      return other.level != item.level || other.on_chip || !other.store || is_place_ahead(other.node);
    });
  };
  return std::any_of(state.items.begin(), state.items.end(),
                     [&](const Item& item) { return is_place_ahead(item.node) && is_alone(item); });
}

Ref without_places_ahead(Ref root) {
  return rebuild(root, [](Ref, Ref n) { return is_place_ahead(n) ? operand_of(n) : n; });
}

Schedule schedule_for(Ref root, const Machine& machine, const ScheduleObserver& observe) {
  const auto step = [&](const char* pass, Ref graph) {
    if (observe.pass) observe.pass(pass, graph);
    return graph;
  };
  if (observe.begin) observe.begin();
  ScheduleState state{.machine = machine};
  // On tensors: what is computed chunk by chunk, which tensors get memory, and how tiles divide theirs.
  state.graph = split_reduce(step("top k by rank", topk_by_rank(step("model", root), machine)), machine);
  step("split reductions", state.graph.root);
  state.graph.root = step("split scans", split_scans(state.graph.root, state.scans));
  for (ScanTensors& scan : state.scans) find_members(state.graph.root, scan);
  state.places = choose_places(state.graph, machine, observe.place);
  shape_tiles(state);
  // On tensors that have a place, one item each. Buffers come first, as lowering writes loads from them.
  collect_items(state);
  assign_buffers(state);
  find_needs(state);
  lower_items(state);
  // On stores: which share tasks, once all are there.
  join_tiles(state);
  follow_rows(state);
  repeat_rows(state);
  keep_rows(state);
  if (has_place_alone(state)) return schedule_for(without_places_ahead(root), machine, observe);
  store_once(state);
  // On kernels, which say how long temps live.
  build_kernels(state);
  place_temps(state);
  tell_items(state, observe);
  return std::move(state.schedule);
}

bool fits_on_chip(const Schedule& schedule, const Machine& machine) {
  return std::all_of(schedule.kernels.begin(), schedule.kernels.end(), [&](const Kernel& k) {
    return why_too_much_on_chip(bytes_on_chip({&k.tree, 1}), on_chip_scope(machine)).empty();
  });
}

}  // namespace

// What is kept on chip is chosen tensor by tensor and tile by tile. Where a kernel then keeps more of them than there
// is room for, each may be half as large: what is larger goes through memory, and tiles divide their axes further.
Schedule make_schedule(Ref root, const Machine& machine, const ScheduleObserver& observe) {
  Machine given = machine;
  while (true) {
    Schedule schedule = schedule_for(root, given, observe);
    const bool is_least = given.local_bytes == 0 && given.tile_bytes == 0 && given.row_bytes == 0;
    if (is_least || fits_on_chip(schedule, machine)) return schedule;
    for (int64_t* bytes : {&given.local_bytes, &given.tile_bytes, &given.row_bytes}) *bytes /= 2;
  }
}

std::string summary(const Schedule& schedule) {
  std::string text;
  for (const Kernel& k : schedule.kernels) {
    std::string line;
    for (Ref nest : nests_of(k)) {
      if (!line.empty()) line += " | ";
      for (size_t i = 0; i < stores_of(nest).size(); ++i)
        line += (i ? " & " : "") + describe_store(StoreView(stores_of(nest)[i]));
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace smelt
