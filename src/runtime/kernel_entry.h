// KernelEntry: what compiled kernel code looks like to the rest of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace smelt {

// Every worker calls every kernel with its own `part` of `parts`; a kernel divides its outermost
// range by them. Buffers are in the order of the kernel's slots, symbols in the order of its
// variables.
using KernelEntry = void (*)(const void* const* buffers, const int64_t* symbols, int64_t part,
                             int64_t parts);

// A rendered kernel: LLVM IR as text (no triple, no data layout: the compiler puts in the target's)
// that defines one function `entry` of the type above. Symbols it may call: memset, memcpy and
// memmove, and those only because LLVM invents calls to them.
struct Source {
  std::string text;
  std::string entry;
  // In place of the text: what CpuDevice::key_of() said of it. Such a source is taken from the cache or not at all.
  std::string key = {};
};

// Called after each finished kernel, from any thread but never from two at once.
using ProgressFn = std::function<void(int done, int total)>;

}  // namespace smelt
