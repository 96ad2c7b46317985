// render_nvptx: Program -> LLVM 19 IR as text, for the NVPTX target of LLVM, which makes PTX of it. Pure text and
// deterministic; LLVM itself is not used here.
//
//   define ptx_kernel void @NAME(ptr addrspace(1) %buffer.0, ..., ptr addrspace(1) %symbols, ptr addrspace(1) %clocks)
//
// A worker is a block: part and parts are its index and the number of blocks of the grid. `scratch_bytes` is the size
// of the shared memory that a block is launched with. Blocks and threads are numbered along x only. What blocks write
// to %clocks is in base/block_clock.h.
//
// What the text assumes of its callers:
//   - buffers begin at multiples of kBufferAlign (addresses.h), do not overlap where the program stores to one of them,
//     and lie in memory of the device, as do the symbols, an i64 each;
//   - nobody else writes to a buffer that the program only reads, while it runs.
//
// What floats mean is written in llvm.h.
#pragma once

#include <string>

#include "codegen/program.h"

namespace smelt {

// REQUIRES: problem_of(program) is empty (codegen/program_verify.h), and all its values are scalars.
std::string render_nvptx(const Program& program);

}  // namespace smelt
