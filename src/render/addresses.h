// Where loads and stores go: what is constant in an offset, and how far an address is known to be aligned.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/program.h"

namespace smelt {

constexpr int64_t kBufferAlign = 16;  // of buffers on GPUs: as far as a load can make use of it

// An offset as an instruction and a number of bytes behind it. What is constant comes last: then loads of neighbours
// begin with the same address.
struct SplitOffset {
  int varying = 0;
  int64_t constant = 0;
  bool operator==(const SplitOffset&) const = default;
};
SplitOffset split_offset(const Program& program, int offset);

// How far the address of a load or a store is known to be aligned, where buffers and scratch memory begin at
// multiples of kBufferAlign. `multiples`: known_multiples(program).
int64_t alignment_of(const Program& program, const Instruction& access, const std::vector<int64_t>& multiples);

}  // namespace smelt
