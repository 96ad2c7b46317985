#include "engine/tune_bench.h"

#include <algorithm>

namespace smelt {
namespace {

constexpr size_t kLine = 64;
constexpr int64_t kStaysWarm = 256 << 10;  // inputs that the kernel before has just written

constexpr double kMostCaches = 256 << 20;

}  // namespace

double typical_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto quarter = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return *quarter;
}

Result<ColdBench> ColdBench::make(const TuneSite& site, double launch_bytes, Device& device) {
  ColdBench bench(site, device);
  // Each worker may have a last-level cache of its own, whatever the system says.
  const Machine& machine = device.machine();
  const double caches =
      std::min(kMostCaches, static_cast<double>(machine.l3_bytes + machine.l2_bytes) * device.workers());
  if (launch_bytes * static_cast<double>(site.launches.size()) >= 2 * caches) return bench;
  const auto bytes = static_cast<size_t>(std::min(2 * caches, site.bytes_between));
  if (bytes < kLine) return bench;
  SMELT_TRY(other, DeviceMemory::allocate(device, bytes, "what is read between launches"));
  // Pages that were never written are all one page of zeros, which stays in cache.
  SMELT_CHECK(device.upload(other.data(), std::vector<std::byte>(bytes, std::byte{1})));
  bench.other_ = std::move(other);
  SMELT_TRY(reader, device.memory_reader());
  bench.reader_ = reader;
  return bench;
}

// Begin and end of what is read in front of a launch: other memory, then the small inputs of the kernel.
std::vector<std::array<const void*, 2>> ColdBench::stretches() const {
  std::vector<std::array<const void*, 2>> out;
  if (other_.size() == 0) return out;
  out.push_back({other_.data(), other_.data() + other_.size()});
  for (size_t i = 0; i < site_->buffers.size(); ++i)
    if (const TuneSite::Buffer& b = site_->buffers[i]; !b.is_weight && b.bytes <= kStaysWarm) {
      const auto* begin = static_cast<const std::byte*>(site_->launches[0][i]);
      out.push_back({begin, begin + b.bytes});
    }
  return out;
}

Result<std::vector<std::vector<double>>> ColdBench::run(std::span<const TimedKernel> kernels, int rounds,
                                                        const std::atomic<bool>* cancel) {
  const auto before = stretches();
  const size_t step = before.size() + 1;
  std::vector<std::vector<double>> samples(kernels.size());
  for (int round = 0; round < rounds && !(cancel && *cancel); ++round) {
    std::vector<Launch> launches;
    // Every round begins with another kernel, so that none always follows the same one.
    for (size_t k = 0; k < kernels.size(); ++k) {
      for (const auto& stretch : before) launches.push_back({reader_, stretch.data()});
      const TimedKernel& timed = kernels[(k + static_cast<size_t>(round)) % kernels.size()];
      launches.push_back({timed.kernel, timed.launches[next_launch_++ % timed.launches.size()]});
    }
    std::vector<int64_t> times(launches.size() + 1);
    SMELT_TRY(plan, device_->capture(launches));
    SMELT_CHECK(device_->run(*plan, site_->symbols, {.times_ns = times}));
    for (size_t k = 0; k < kernels.size(); ++k) {
      const size_t end = (k + 1) * step;
      samples[(k + static_cast<size_t>(round)) % kernels.size()].push_back(
          static_cast<double>(times[end] - times[end - 1]) * 1e-9);
    }
  }
  return samples;
}

}  // namespace smelt
