#include "runtime/cpu/stream_reader.h"

#include "runtime/target.h"

namespace smelt {
namespace {

// A vector of one cache line; the compiler splits it into the registers that there are.
using Line = uint64_t __attribute__((vector_size(64)));

constexpr size_t kStepLines = 4;  // of a row, before the next one has its turn: a block of weights by 16 rows
constexpr size_t kRowLines = kStreamRow / sizeof(Line);
static_assert(kRowLines % kStepLines == 0);

template <int kStreams>
[[gnu::always_inline]] inline void read_part(const void* const* buffers, int64_t part, int64_t parts) {
  const auto* lines = static_cast<const Line*>(buffers[0]);
  const int64_t rows = (static_cast<const Line*>(buffers[1]) - lines) / static_cast<int64_t>(kRowLines);
  const int64_t groups = rows / kStreams;
  Line even = {}, odd = {};
  for (int64_t g = groups * part / parts, end = groups * (part + 1) / parts; g < end; ++g) {
    const Line* group = lines + static_cast<size_t>(g) * kStreams * kRowLines;
    for (size_t at = 0; at < kRowLines; at += kStepLines)
      for (size_t row = 0; row < kStreams; ++row)
        for (size_t i = 0; i < kStepLines; i += 2) {
          even += group[row * kRowLines + at + i];
          odd += group[row * kRowLines + at + i + 1];
        }
  }
  even += odd;
  uint64_t total = 0;
  for (int i = 0; i < 8; ++i) total += even[i];
  volatile uint64_t sink = total;  // so that the reads happen
  (void)sink;
}

template <int kStreams>
void read_streams(const void* const* buffers, const int64_t*, int64_t part, int64_t parts, std::byte*, int64_t) {
  read_part<kStreams>(buffers, part, parts);
}

constexpr StreamReader kReaders[] = {
    {1, read_streams<1>}, {2, read_streams<2>}, {4, read_streams<4>}, {8, read_streams<8>}};

#if defined(__x86_64__)
template <int kStreams>
[[gnu::target("avx512f")]] void read_streams_avx512(const void* const* buffers, const int64_t*, int64_t part,
                                                    int64_t parts, std::byte*, int64_t) {
  read_part<kStreams>(buffers, part, parts);
}

constexpr StreamReader kReadersAvx512[] = {
    {1, read_streams_avx512<1>}, {2, read_streams_avx512<2>}, {4, read_streams_avx512<4>}, {8, read_streams_avx512<8>}};
#endif

}  // namespace

std::span<const StreamReader> stream_readers() {
#if defined(__x86_64__)
  if (host_target().avx512) return kReadersAvx512;
#endif
  return kReaders;
}

}  // namespace smelt
