#include "engine/launch_cost.h"

#include <algorithm>

namespace smelt {

KernelCost launch_cost(const PlanLaunch& launch, Ref tree, const SymbolValues& symbols, int64_t position) {
  BufferContents positions;
  for (size_t i = 0; i < launch.buffers.size(); ++i)
    if (launch.buffers[i].name == "positions") positions[static_cast<int64_t>(i)] = position;
  KernelCost cost = cost_of(tree, symbols, positions);
  for (size_t i = 0; i < std::min(cost.buffers.size(), launch.buffers.size()); ++i) {
    double& read = cost.buffers[i].read;
    const double all = static_cast<double>(launch.buffers[i].bytes);
    if (!launch.buffers[i].is_weight || read <= all) continue;
    cost.read += all - read;
    read = all;
  }
  return cost;
}

}  // namespace smelt
