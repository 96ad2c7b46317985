// KernelEntry: what compiled code of a kernel looks like on a CPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt {

// Workers call a kernel with parts of `parts`, each with some of them; a kernel divides its outermost range by these.
// Buffers are in the order of the kernel's slots, symbols in that of its variables. `scratch`: memory of the worker
// (Program::scratch_bytes), aligned to kKernelScratchAlign. `begins`: 1 for the first part of a launch that a worker
// takes, else 0: what all parts need is made by the first one, and stays in the scratch memory for the others.
using KernelEntry = void (*)(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts,
                             std::byte* scratch, int64_t begins);

constexpr size_t kKernelScratchAlign = 64;

}  // namespace smelt
