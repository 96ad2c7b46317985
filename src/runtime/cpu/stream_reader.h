// Kernels that read memory as products of one token do: several rows of a matrix side by side. Their times say how many
// streams the prefetchers of a processor follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/cpu/kernel_entry.h"

namespace smelt {

// Reads from buffers[0] up to buffers[1], `streams` rows of kStreamRow bytes side by side, then the next ones.
struct StreamReader {
  int64_t streams = 1;
  KernelEntry entry = nullptr;
};

constexpr size_t kStreamRow = 18 << 10;         // 16 rows of 2048 weights of 4.5 bits
constexpr size_t kStreamUnit = 8 * kStreamRow;  // buffers are a multiple of it

// For 1, 2, 4 and 8 streams.
std::span<const StreamReader> stream_readers();

}  // namespace smelt
