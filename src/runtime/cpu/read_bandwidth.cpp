#include "runtime/cpu/read_bandwidth.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime/cpu/workers.h"
#include "runtime/memory.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// A vector of one cache line; the compiler splits it into the registers that there are.
using Line = uint64_t __attribute__((vector_size(64)));

// What a caller gives may begin between two lines of the cache.
[[gnu::always_inline]] inline void add_line(Line& sums, const std::byte* from) {
  Line line;
  std::memcpy(&line, from, sizeof line);
  sums += line;
}

// A kernel like any other, so that the same pinned threads read as they will later.
[[gnu::always_inline]] inline void read_part(const void* const* buffers, int64_t part, int64_t parts) {
  const auto* bytes = static_cast<const std::byte*>(buffers[0]);
  constexpr auto kPair = static_cast<int64_t>(2 * sizeof(Line));
  const int64_t pairs = (static_cast<const std::byte*>(buffers[1]) - bytes) / kPair;
  Line even = {}, odd = {};
  for (int64_t i = pairs * part / parts, end = pairs * (part + 1) / parts; i < end; ++i) {
    add_line(even, bytes + i * kPair);
    add_line(odd, bytes + i * kPair + kPair / 2);
  }
  even += odd;
  uint64_t total = 0;
  for (int i = 0; i < 8; ++i) total += even[i];
  volatile uint64_t sink = total;  // so that the reads happen
  (void)sink;
}

void read_kernel(const void* const* buffers, const int64_t*, int64_t part, int64_t parts, std::byte*, int64_t) {
  read_part(buffers, part, parts);
}

#if defined(__x86_64__)
// The same in registers of a whole line: one core reads about 15 % more with it.
[[gnu::target("avx512f")]] void read_kernel_avx512(const void* const* buffers, const int64_t*, int64_t part,
                                                   int64_t parts, std::byte*, int64_t) {
  read_part(buffers, part, parts);
}
#endif

void touch_kernel(const void* const* buffers, const int64_t*, int64_t part, int64_t parts, std::byte*, int64_t) {
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(buffers[0]));
  const int64_t lines = (static_cast<const std::byte*>(buffers[1]) - bytes) / 64;
  const int64_t begin = lines * part / parts * 64, end = lines * (part + 1) / parts * 64;
  std::memset(bytes + begin, 1, static_cast<size_t>(end - begin));
}

}  // namespace

KernelEntry memory_reading_kernel() {
#if defined(__x86_64__)
  if (host_target().avx512) return read_kernel_avx512;
#endif
  return read_kernel;
}

KernelEntry memory_touching_kernel() { return touch_kernel; }

double read_bandwidth(Workers& workers, size_t bytes) {
  Result<Buffer> buffer = Buffer::allocate(bytes);
  if (!buffer) return 0;
  const void* buffers[] = {buffer->data(), buffer->data() + bytes};
  const CpuLaunch touch[] = {{touch_kernel, buffers}};
  const CpuLaunch read[] = {{memory_reading_kernel(), buffers}};
  workers.run(touch, nullptr);
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    int64_t times[2];
    workers.run(read, nullptr, {.times_ns = times});
    best = std::max(best, static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, times[1] - times[0])));
  }
  return best;
}

}  // namespace smelt
