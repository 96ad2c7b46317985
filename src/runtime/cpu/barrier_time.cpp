#include "runtime/cpu/barrier_time.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace smelt {
namespace {

constexpr size_t kLaunches = 1000;
constexpr int kRuns = 5;

}  // namespace

double seconds_of_barrier(Workers& workers) {
  const auto nothing = [](const void* const*, const int64_t*, int64_t, int64_t, std::byte*, int64_t) {};
  const void* buffers[] = {nullptr};
  const std::vector<CpuLaunch> launches(kLaunches, {nothing, buffers});
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = Clock::now();
    workers.run(launches, nullptr);
    best = std::min(best, seconds_since(start));
  }
  return best / kLaunches;
}

}  // namespace smelt
