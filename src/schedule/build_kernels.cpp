#include <algorithm>
#include <map>
#include <set>

#include "graph/tensor.h"
#include "graph/views.h"
#include "schedule/kernel_tree.h"
#include "schedule/passes.h"
#include "schedule/streams.h"

namespace smelt {
namespace {

using Reductions = std::set<const Node*>;

Reductions reductions_of(Ref store) {
  Reductions found;
  for (Ref n : toposort(StoreView(store).value))
    if (is_reduce(n->op)) found.insert(n.get());
  return found;
}

bool have_common(const Reductions& a, const Reductions& b) {
  return std::any_of(a.begin(), a.end(), [&](const Node* n) { return b.contains(n); });
}

// Whether the loops of one store begin with those of the other.
bool loops_fit(Ref a, Ref b) {
  const auto x = StoreView(a).ranges, y = StoreView(b).ranges;
  const size_t n = std::min(x.size(), y.size());
  return std::equal(x.begin(), x.begin() + n, y.begin());
}

// Stores that repeat a reduction of each other run in one nest, where it is computed once.
std::vector<Refs> group_stores(const ScheduleState& state, const std::vector<int>& members) {
  std::vector<Refs> groups;
  std::vector<Reductions> reductions;  // of each group
  for (int i : members) {
    const Item& item = state.item(i);
    Reductions mine = reductions_of(item.store);
    size_t g = item.tile >= 0 ? groups.size() : 0;
    while (g < groups.size() && !(have_common(mine, reductions[g]) && loops_fit(groups[g][0], item.store))) ++g;
    if (g == groups.size()) {
      groups.emplace_back();
      reductions.emplace_back();
    }
    groups[g].push_back(item.store);
    if (item.copy) groups[g].push_back(item.copy);
    reductions[g].merge(mine);
  }
  return groups;
}

// All on-chip items that the item reads, directly or through others, by the numbers of their tensors: sources first.
using OnChipItems = std::set<std::pair<int, int>>;
void gather_on_chip(const ScheduleState& state, const Item& item, OnChipItems& out) {
  for (int i : item.needs) {
    const Item& need = state.item(i);
    if (need.on_chip && out.emplace(state.item_of.at(need.node.get()), i).second) gather_on_chip(state, need, out);
  }
}

Refs in_streams(ScheduleState& state, Ref nest) {
  if (!tile_ranges(stores_of(nest)).empty()) return {nest};
  return one_stream_at_a_time(nest, state.machine,
                              [&](DType dtype, int64_t bytes) { return state.new_local(dtype, bytes); });
}

// What people mean by the tensor of an item: where operators have added or scaled results, the nearest reduction of
// this kernel below them.
Ref last_reduction(const ScheduleState& state, Ref item) {
  const auto is_made_by_operators = [](Ref n) {
    return n->op == Op::Output || is_move(n->op) || (is_elementwise(n->op) && n->op != Op::Place);
  };
  Refs next{item};
  std::set<const Node*> seen;
  for (size_t i = 0; i < next.size(); ++i) {
    if (is_reduce(next[i]->op)) return next[i];
    if (!is_made_by_operators(next[i])) continue;
    for (Ref source : next[i]->src) {
      const auto known = state.item_of.find(source.get());
      const bool is_here = known == state.item_of.end() || state.item(known->second).on_chip;
      if (is_here && seen.insert(source.get()).second) next.push_back(source);
    }
  }
  return item;
}

void add_kernel(ScheduleState& state, int level, std::vector<int> members) {
  OnChipItems local;
  for (int i : members) gather_on_chip(state, state.item(i), local);
  Refs nests;
  for (const auto& [tensor, i] : local) nests.push_back(sink({state.item(i).store}));
  // Nests of a tile follow each other, in the order in which they need each other.
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return std::pair(state.item(a).tile, state.item(a).order) < std::pair(state.item(b).tile, state.item(b).order);
  });
  for (const Refs& stores : group_stores(state, members))
    for (Ref nest : in_streams(state, sink(stores))) nests.push_back(nest);
  KernelTree tree = kernel_tree(sink(nests), state.machine);
  Kernel kernel{.tree = tree.tree, .buffers = std::move(tree.buffers), .level = level};
  for (int i : members) kernel.values.push_back(last_reduction(state, state.item(i).node));
  state.schedule.kernels.push_back(std::move(kernel));
}

}  // namespace

void build_kernels(ScheduleState& state) {
  std::map<int, std::vector<int>> by_level;
  for (size_t i = 0; i < state.items.size(); ++i)
    if (!state.items[i].on_chip && state.items[i].store) by_level[state.items[i].level].push_back(static_cast<int>(i));
  for (auto& [level, members] : by_level) add_kernel(state, level, std::move(members));
}

}  // namespace smelt
