#include "runtime/cpu/hint_reader.h"

#include <cstddef>

#include "runtime/target.h"

namespace smelt {
namespace {

using Line = uint32_t __attribute__((vector_size(64)));  // a cache line

constexpr int kSums = 8;            // that do not wait for each other
constexpr int64_t kNear = 2 << 10;  // hints as far as that go into the first level, as those of kernels do

// Some ten operations for a line, as many as unpacking four bits and a product take.
template <int64_t kAhead>
[[gnu::always_inline]] inline void read_part(const void* const* buffers, int64_t part, int64_t parts) {
  const auto* lines = static_cast<const Line*>(buffers[0]);
  const int64_t groups = (static_cast<const Line*>(buffers[1]) - lines) / kSums;
  Line sums[kSums] = {};
  for (int64_t g = groups * part / parts, end = groups * (part + 1) / parts; g < end; ++g)
    for (int i = 0; i < kSums; ++i) {
      const Line* at = lines + g * kSums + i;
      if constexpr (kAhead > 0) {
        const void* next = reinterpret_cast<const std::byte*>(at) + kAhead;
        kAhead <= kNear ? __builtin_prefetch(next, 0, 3) : __builtin_prefetch(next, 0, 2);
      }
      const Line low = *at & 0x0f0f0f0fu, high = (*at >> 4) & 0x0f0f0f0fu;
      sums[i] += low * static_cast<uint32_t>(i + 3);
      sums[i] ^= high * static_cast<uint32_t>(i + 5);
      sums[i] += (sums[i] >> 7) & 0x33u;
    }
  uint32_t total = 0;
  for (const Line& sum : sums)
    for (int i = 0; i < 16; ++i) total += sum[i];
  volatile uint32_t sink = total;  // so that the reads happen
  (void)sink;
}

template <int64_t kAhead>
void read_ahead(const void* const* buffers, const int64_t*, int64_t part, int64_t parts, std::byte*, int64_t) {
  read_part<kAhead>(buffers, part, parts);
}

constexpr HintReader kReaders[] = {{0, read_ahead<0>}, {2 << 10, read_ahead<2 << 10>}, {4 << 10, read_ahead<4 << 10>}};

#if defined(__x86_64__)
template <int64_t kAhead>
[[gnu::target("avx2")]] void read_ahead_avx2(const void* const* buffers, const int64_t*, int64_t part, int64_t parts,
                                             std::byte*, int64_t) {
  read_part<kAhead>(buffers, part, parts);
}

constexpr HintReader kReadersAvx2[] = {
    {0, read_ahead_avx2<0>}, {2 << 10, read_ahead_avx2<2 << 10>}, {4 << 10, read_ahead_avx2<4 << 10>}};

template <int64_t kAhead>
[[gnu::target("avx512f")]] void read_ahead_avx512(const void* const* buffers, const int64_t*, int64_t part,
                                                  int64_t parts, std::byte*, int64_t) {
  read_part<kAhead>(buffers, part, parts);
}

constexpr HintReader kReadersAvx512[] = {
    {0, read_ahead_avx512<0>}, {2 << 10, read_ahead_avx512<2 << 10>}, {4 << 10, read_ahead_avx512<4 << 10>}};
#endif

}  // namespace

std::span<const HintReader> hint_readers() {
#if defined(__x86_64__)
  if (host_target().avx512) return kReadersAvx512;
  if (host_target().avx2) return kReadersAvx2;
#endif
  return kReaders;
}

}  // namespace smelt
