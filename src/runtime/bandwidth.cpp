#include "runtime/bandwidth.h"

#include <algorithm>
#include <vector>

namespace smelt {
namespace {

constexpr int kPasses = 5;
constexpr size_t kFewestBytes = size_t{64} << 20;
constexpr size_t kPiece = size_t{64} << 20;

// Far more than caches hold, and no more than a quarter of what is there.
size_t bytes_to_read(const Device& device, size_t most) {
  const Machine& m = device.machine();
  const auto caches = static_cast<size_t>(m.l3_bytes + m.l2_bytes * (m.has_threads() ? 1 : device.workers()));
  most = std::min<uint64_t>(most, device.available_memory() / 4);
  return std::clamp(32 * caches, kFewestBytes, std::max(most, kFewestBytes)) / kPiece * kPiece;
}

// Pages of a host that were never written are all one page of zeros.
Status write_all(Device& device, DeviceMemory& memory) {
  const std::vector<std::byte> ones(kPiece, std::byte{1});
  for (size_t at = 0; at < memory.size(); at += kPiece) SMELT_CHECK(device.upload(memory.data() + at, ones));
  return {};
}

}  // namespace

Result<double> measure_bandwidth(Device& device, size_t most) {
  const size_t bytes = bytes_to_read(device, most);
  SMELT_TRY(memory, DeviceMemory::allocate(device, bytes, "measuring its bandwidth"));
  SMELT_CHECK(write_all(device, memory));
  SMELT_TRY(reader, device.memory_reader());
  const void* buffers[] = {memory.data(), memory.data() + bytes};
  const Launch launch{.kernel = reader, .buffers = buffers};
  SMELT_TRY(plan, device.capture({&launch, 1}));
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    int64_t times[2];
    SMELT_CHECK(device.run(*plan, {}, {.times_ns = times}));
    best = std::max(
        best, static_cast<double>(bytes) / (static_cast<double>(std::max<int64_t>(1, times[1] - times[0])) * 1e-9));
  }
  return best;
}

}  // namespace smelt
