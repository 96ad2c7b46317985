// A launch of a kernel in the Metal Shading Language, compiled for this processor: its threadgroups one after the
// other, the threads of each in turns, and all that they do is checked.
//
//   - loads and stores lie within the buffers of the launch and the memory of the threadgroup, and are aligned;
//   - of two threads that meet at a byte which one of them writes, a barrier is between them, and two threadgroups do
//     not;
//   - all threads of a threadgroup come to the same barriers, all of a SIMD group to the same exchanges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/cpu/kernel_entry.h"
#include "runtime/metal_shim/memory_checks.h"
#include "runtime/source.h"

namespace smelt {

// The entry that compile.h puts behind kernels: runs one thread of the kernel with this number.
using ShimEntry = void (*)(uint32_t kernel, void* const* buffers, const int64_t* symbols, void* scratch,
                           uint32_t thread, uint32_t part, uint32_t parts);

// What the linker gives for such an entry, whose type is that of kernels for processors there.
inline ShimEntry shim_entry(KernelEntry linked) { return reinterpret_cast<ShimEntry>(reinterpret_cast<void*>(linked)); }

struct ShimKernel {
  ShimEntry entry = nullptr;
  uint32_t number = 0;  // among those of its object
  LaunchShape shape;
  std::string name;
};

struct ShimLaunch {
  const ShimKernel* kernel = nullptr;
  std::span<void* const> buffers;
  std::span<const int64_t> symbols;
  uint32_t parts = 1;  // threadgroups
};

// `regions`: the memory that the buffers lie in. `checks` may have served other launches. An Error says what a thread
// did.
Status run_checked(const ShimLaunch& launch, std::vector<MemoryRegion> regions, MemoryChecks& checks);

// What compiled kernels call, by name: for the linker.
std::vector<std::pair<const char*, void*>> shim_calls();

}  // namespace smelt
