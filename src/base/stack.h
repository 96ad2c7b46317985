// How much stack the calling thread still has: linux/stack.cpp, apple/stack.cpp.
#pragma once

#include <cstddef>

namespace smelt {

// The lowest address that the stack of the calling thread may reach; 0 where the system does not say. That of the first
// thread grows until a limit (ulimit -s).
size_t end_of_stack();

// Bytes below the caller's frame. Costs a few instructions, but for the first time in a thread.
inline size_t stack_left() {
  thread_local const size_t end = end_of_stack();
  // Not the address of a local variable, which AddressSanitizer puts elsewhere.
  return reinterpret_cast<size_t>(__builtin_frame_address(0)) - end;
}

}  // namespace smelt
