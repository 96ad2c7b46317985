#include "engine/launch_times.h"

namespace smelt {

void LaunchTimes::start(int kernels, size_t launches, size_t workers) {
  kernels_.assign(static_cast<size_t>(kernels), {});
  clocks_.resize(launches + 1);
  arrivals_.resize(launches * workers);
  workers_ = workers;
}

std::span<int64_t> LaunchTimes::clocks(size_t launches) {
  return started() ? std::span(clocks_).first(launches + 1) : std::span<int64_t>{};
}

std::span<int64_t> LaunchTimes::arrivals(size_t launches) {
  return started() ? std::span(arrivals_).first(launches * workers_) : std::span<int64_t>{};
}

void LaunchTimes::add(std::span<const int> kernels, std::span<const int64_t> clocks, std::span<const Work> work) {
  for (size_t i = 0; i + 1 < clocks.size(); ++i) {
    const auto number = static_cast<size_t>(kernels[i]);
    if (number >= kernels_.size()) kernels_.resize(number + 1);  // compiled since start()
    Kernel& kernel = kernels_[number];
    ++kernel.calls;
    kernel.seconds += static_cast<double>(clocks[i + 1] - clocks[i]) * 1e-9;
    if (i >= work.size()) continue;
    kernel.bytes += work[i].bytes;
    kernel.operations += work[i].operations;
  }
}

}  // namespace smelt
