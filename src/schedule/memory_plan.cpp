#include "schedule/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace smelt {
namespace {

constexpr int64_t kAlign = 64;

int64_t padded(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign + kAlign; }

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
  std::vector<int> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  MemoryPlan plan;
  plan.buffers.resize(lifetimes.size());
  std::vector<int> placed;
  for (int i : order) {
    std::vector<TempBuffer> busy;
    for (int j : placed)
      if (overlap(lifetimes[i], lifetimes[j])) busy.push_back(plan.buffers[j]);
    std::sort(busy.begin(), busy.end(),
              [](const TempBuffer& a, const TempBuffer& b) { return a.offset < b.offset; });
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

}  // namespace smelt
