// Source: a kernel as text, on its way to machine code.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace smelt {

// How many threads work on a kernel and how they share it, where the device has blocks of threads.
struct LaunchShape {
  int buffers = 0;            // arguments of the kernel
  int threads = 1;            // of a block
  int64_t tasks = 1;          // the most that a launch has; more blocks than these would idle
  int64_t blocks = 0;         // that a launch must have; 0: as many as the device likes
  int64_t shared_bytes = 0;   // on-chip memory of a block
  bool has_prologue = false;  // each block makes something for itself before its tasks
  bool overlaps = false;      // it waits for the launch before by itself, and may begin while that one ends
};

// A rendered kernel: LLVM IR as text (no triple, no data layout: the compiler puts in the target's) that defines one
// function `entry`. Of a CPU that is a KernelEntry (runtime/cpu/kernel_entry.h), which may call memset, memcpy and
// memmove, and those only because LLVM invents calls to them. Of a GPU it is
//
//   define ptx_kernel void @entry(ptr addrspace(1) %b0, .., ptr addrspace(1) %symbols, ptr addrspace(1) %clocks)
//
// over blocks of shape.threads threads and any number of blocks, which share the outermost range as workers do
// (%clocks: base/block_clock.h).
struct Source {
  std::string text;
  std::string entry;
  // In place of the text: what Device::key_of() said of it. Such a source is taken from the cache or not at all.
  std::string key = {};
  LaunchShape shape = {};
  // What a failed ENSURE leaves behind while this is compiled, see base/ensure_dump.h; empty: a hint.
  std::function<std::string()> leave = {};
};

// What a kernel becomes, for people.
struct Assembly {
  std::string text;
  std::vector<int> lines;  // of each line of the text that of the source, from 1 on; 0: none. Empty where not known
};

// Called after each finished kernel, from any thread but never from two at once.
using ProgressFn = std::function<void(int done, int total)>;

}  // namespace smelt
