// A kernel that reads memory, for measuring: LLVM IR written by hand, as text.
#pragma once

#include "runtime/source.h"

namespace smelt {

// Reads from its first buffer up to its second: 16 bytes a thread, four of them under way at once; what is left at
// the end, less than 16 bytes, is left out. REQUIRES: the first buffer lies at a multiple of 16.
Source cuda_memory_reader(int processors);

}  // namespace smelt
