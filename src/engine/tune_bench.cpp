#include "engine/tune_bench.h"

#include <algorithm>

namespace smelt {
namespace {

constexpr size_t kLine = 64;
constexpr int64_t kStaysWarm = 256 << 10;  // inputs that the kernel before has just written

constexpr double kMostCaches = 256 << 20;

// A launch that reads other memory, then the small inputs of the kernel behind it. Buffers: begin and end of a stretch,
// one pair after the other, closed by a null.
void read_stretches(const void* const* buffers, const int64_t*, int64_t part, int64_t parts) {
  uint64_t sum = 0;
  for (; buffers[0]; buffers += 2) {
    const auto* begin = static_cast<const unsigned char*>(buffers[0]);
    const auto lines = static_cast<int64_t>(
        static_cast<size_t>(static_cast<const unsigned char*>(buffers[1]) - begin) / kLine);
    for (int64_t i = lines * part / parts; i < lines * (part + 1) / parts; ++i)
      sum += begin[static_cast<size_t>(i) * kLine];
  }
  volatile uint64_t sink = sum;  // so that the reads happen
  (void)sink;
}

}  // namespace

double typical_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto quarter = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return *quarter;
}

Result<ColdBench> ColdBench::make(const TuneSite& site, double launch_bytes,
                                  const CpuTarget& target, Workers& workers) {
  ColdBench bench(site, workers);
  // Each worker may have a last-level cache of its own, whatever the system says.
  const double caches = std::min(
      kMostCaches, static_cast<double>(target.l3_bytes + target.l2_bytes) * workers.count());
  if (launch_bytes * static_cast<double>(site.launches.size()) >= 2 * caches) return bench;
  const auto bytes = static_cast<size_t>(std::min(2 * caches, site.bytes_between));
  if (bytes < kLine) return bench;
  SMELT_TRY(other, Buffer::allocate(bytes));
  // Pages that were never written are all one page of zeros, which stays in cache.
  std::fill(other.bytes().begin(), other.bytes().end(), std::byte{1});
  bench.other_ = std::move(other);
  return bench;
}

std::vector<std::vector<double>> ColdBench::run(std::span<const TimedKernel> kernels, int rounds,
                                                const std::atomic<bool>* cancel) {
  std::vector<const void*> stretches;
  if (other_.size() > 0) {
    stretches = {other_.data(), other_.data() + other_.size()};
    for (size_t i = 0; i < site_->buffers.size(); ++i)
      if (const TuneSite::Buffer& b = site_->buffers[i]; !b.is_weight && b.bytes <= kStaysWarm)
        for (int64_t at : {int64_t{0}, b.bytes})
          stretches.push_back(static_cast<const std::byte*>(site_->launches[0][i]) + at);
    stretches.push_back(nullptr);
  }
  std::vector<std::vector<double>> samples(kernels.size());
  for (int round = 0; round < rounds && !(cancel && *cancel); ++round) {
    std::vector<Launch> launches;
    // Every round begins with another kernel, so that none always follows the same one.
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (!stretches.empty()) launches.push_back({read_stretches, stretches.data()});
      const TimedKernel& timed = kernels[(k + static_cast<size_t>(round)) % kernels.size()];
      launches.push_back({timed.entry, timed.launches[next_launch_++ % timed.launches.size()]});
    }
    std::vector<int64_t> times(launches.size() + 1);
    workers_->run(launches, site_->symbols.data(), {.times_ns = times});
    const size_t step = stretches.empty() ? 1 : 2;
    for (size_t k = 0; k < kernels.size(); ++k) {
      const size_t end = (k + 1) * step;
      samples[(k + static_cast<size_t>(round)) % kernels.size()].push_back(
          static_cast<double>(times[end] - times[end - 1]) * 1e-9);
    }
  }
  return samples;
}

}  // namespace smelt
