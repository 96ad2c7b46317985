// MetalPlan: launches encoded once, which one call replays. All that changes from token to token are the launch values,
// which lie in memory that host and GPU share; the addresses of the kernels' buffers lie in a table beside the plan.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/device.h"
#include "runtime/metal/buffers.h"

namespace smelt {

struct MetalExecutable : Executable {
  MetalExecutable(MetalPipeline pipeline, const LaunchShape& shape, std::string name, uint32_t threadgroups)
      : pipeline(pipeline), shape(shape), name(std::move(name)), threadgroups(threadgroups) {}
  MetalPipeline pipeline;
  LaunchShape shape;
  std::string name;
  uint32_t threadgroups;  // that a launch has, where it has the choice
};

class MetalPlan : public CapturedPlan {
 public:
  // REQUIRES: the GPU and its buffers outlive this. `symbols`: where the launch values lie.
  static Result<std::unique_ptr<MetalPlan>> capture(MetalGpu& gpu, const MetalBuffers& buffers,
                                                    const MetalMemory& symbols, std::span<const Launch> launches);
  ~MetalPlan() override;

  // Returns when all is done.
  Status run() const;
  // The same, slower: a clock in nanoseconds at the start and behind each launch.
  Status run_timed(std::span<int64_t> times_ns) const;

 private:
  explicit MetalPlan(MetalGpu& gpu) : gpu_(gpu) {}

  MetalGpu& gpu_;
  size_t launches_ = 0;
  MetalMemory addresses_;
  std::vector<MetalCommands> commands_;  // one behind the other
};

// Of dispatches one behind the other: a clock of the host at the first one's start, 0, and at the end of each.
std::vector<int64_t> nanoseconds_of(const MetalTimes& times);

}  // namespace smelt
