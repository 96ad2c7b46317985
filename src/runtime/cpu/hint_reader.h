// Kernels that read memory and compute as products of one token do, with hints of what they will read. Their times say
// whether the prefetchers of a processor run far enough ahead of such a loop by themselves.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/cpu/kernel_entry.h"

namespace smelt {

// Reads from buffers[0] up to buffers[1], and asks for what lies `ahead` bytes further; 0: for nothing. What is asked
// for may lie behind the end; the number of bytes is a multiple of 512.
struct HintReader {
  int64_t ahead = 0;
  KernelEntry entry = nullptr;
};

// Without hints first.
std::span<const HintReader> hint_readers();

}  // namespace smelt
