// Times several kernels in turns, each launch with its weights in memory and not in a cache, as a token finds them.
//
// A kernel that a model launches often enough goes round over the weights of its layers, which are more than the caches
// hold. Otherwise other memory is read in between: as much as a token reads, but no more than drives everything out.
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/tune_site.h"
#include "runtime/device.h"

namespace smelt {

// A kernel and the arguments of its launches, which it goes round.
struct TimedKernel {
  const Executable* kernel = nullptr;
  std::span<const void* const* const> launches;
};

class ColdBench {
 public:
  // `launch_bytes`: of weights that one launch reads. REQUIRES: site and device outlive it.
  static Result<ColdBench> make(const TuneSite& site, double launch_bytes, Device& device);

  // Seconds of a launch: for each kernel one sample from each round, the kernels of a round one after the other. Stops
  // before a round once `cancel` is true. REQUIRES: the site is prepared.
  Result<std::vector<std::vector<double>>> run(std::span<const TimedKernel> kernels, int rounds,
                                               const std::atomic<bool>* cancel);

  // Other memory that is read before each launch; 0: the weights of the other layers do.
  size_t bytes_read_between() const { return other_.size(); }

 private:
  std::vector<std::array<const void*, 2>> stretches() const;

  ColdBench(const TuneSite& site, Device& device) : site_(&site), device_(&device) {}

  const TuneSite* site_;
  Device* device_;
  DeviceMemory other_;  // read before each launch
  const Executable* reader_ = nullptr;
  size_t next_launch_ = 0;
};

// The median of the faster half: other work on the machine only ever makes a launch slower. 0 of none.
double typical_of(std::vector<double> values);

}  // namespace smelt
