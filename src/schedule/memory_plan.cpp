#include "schedule/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "schedule/passes.h"

namespace smelt {
namespace {

constexpr int64_t kAlign = 64;

int64_t padded(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign + kAlign; }

bool overlap(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
  std::vector<int> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  MemoryPlan plan;
  plan.buffers.resize(lifetimes.size());
  std::vector<int> placed;
  for (int i : order) {
    std::vector<TempBuffer> busy;
    for (int j : placed)
      if (overlap(lifetimes[i], lifetimes[j])) busy.push_back(plan.buffers[j]);
    std::sort(busy.begin(), busy.end(), [](const TempBuffer& a, const TempBuffer& b) { return a.offset < b.offset; });
    const int64_t need = padded(lifetimes[i].bytes);
    int64_t offset = 0;
    for (const TempBuffer& b : busy) {
      if (offset + need <= b.offset) break;
      offset = std::max(offset, b.offset + padded(b.bytes));
    }
    plan.buffers[i] = {offset, lifetimes[i].bytes};
    plan.bytes = std::max(plan.bytes, offset + need);
    placed.push_back(i);
  }
  return plan;
}

void place_temps(ScheduleState& state) {
  for (Lifetime& l : state.temps) l.first = std::numeric_limits<int>::max();
  for (const Kernel& k : state.schedule.kernels)
    for (Ref b : k.buffers) {
      if (b->op != Op::Temp) continue;
      Lifetime& l = state.temps[static_cast<size_t>(number_of_buffer(b))];
      l.first = std::min(l.first, k.level);
      l.last = std::max(l.last, k.level);
    }
  MemoryPlan memory = plan_memory(state.temps);
  state.schedule.temps = std::move(memory.buffers);
  state.schedule.arena_bytes = memory.bytes;
}

}  // namespace smelt
