// KernelEntry: what compiled code of a kernel looks like on a CPU.
#pragma once

#include <cstdint>

namespace smelt {

// Every worker calls every kernel with its own `part` of `parts`; a kernel divides its outermost range by them. Buffers
// are in the order of the kernel's slots, symbols in the order of its variables.
using KernelEntry = void (*)(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts);

}  // namespace smelt
