// MetalPlan: launches encoded once, which one call replays. All that changes from token to token are the launch values,
// which lie in memory that host and GPU share (queue.h); the addresses of the kernels' buffers lie in a table beside
// the plan.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/device.h"
#include "runtime/metal/queue.h"

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
  // REQUIRES: GPU, buffers and queue outlive this. `symbols`: where the launch values lie.
  static Result<std::unique_ptr<MetalPlan>> capture(MetalGpu& gpu, const MetalBuffers& buffers, MetalQueue& queue,
                                                    const MetalMemory& symbols, std::span<const Launch> launches);
  // Waits for runs of it that are under way.
  ~MetalPlan() override;

  // Begins it; what MetalQueue::wait() takes.
  Result<uint64_t> start() const;
  // Launch after launch, which is slower: a clock in nanoseconds at the start and behind each. Returns when all is
  // done.
  Status run_timed(std::span<int64_t> times_ns) const;

 private:
  MetalPlan(MetalGpu& gpu, MetalQueue& queue) : gpu_(gpu), queue_(queue) {}

  MetalGpu& gpu_;
  MetalQueue& queue_;
  mutable uint64_t last_run_ = 0;
  size_t launches_ = 0;
  MetalMemory addresses_;
  std::vector<MetalCommands> commands_;  // one behind the other
};

// Of dispatches one behind the other: a clock of the host at the first one's start, 0, and at the end of each.
std::vector<int64_t> nanoseconds_of(const MetalTimes& times);

}  // namespace smelt
