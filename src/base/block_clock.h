// What the blocks of a launch on an NVIDIA GPU leave of their time, where somebody wants to know: pieces of LLVM IR
// that every kernel has around its body. The last parameter of a kernel, %clocks, is null, and then that costs a
// comparison; or it is the address of a BlockClock for each block, all zeros.
#pragma once

#include <cstdint>

namespace smelt {

// Times in nanoseconds, by the clock that all processors of a GPU share.
struct BlockClock {
  uint64_t begin = 0;  // of the first warp
  uint64_t end = 0;    // of the last
  uint32_t processor = 0;
  uint32_t padding = 0;
};
static_assert(sizeof(BlockClock) == 24, "kBlockClockBegin and kBlockClockEnd say so, too");

inline constexpr const char* kBlockClockParameter = "ptr addrspace(1) noalias align 8 %clocks";

// Ends the entry block; the next label is "body".
inline constexpr const char* kBlockClockBegin = R"(  %clock.wanted = icmp ne ptr addrspace(1) %clocks, null
  br i1 %clock.wanted, label %clock.entered, label %body
clock.entered:
  %clock.thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %clock.is_first = icmp eq i32 %clock.thread, 0
  br i1 %clock.is_first, label %clock.begin, label %body
clock.begin:
  %clock.block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %clock.place = mul i32 %clock.block, 24
  %clock.begin.at = getelementptr i8, ptr addrspace(1) %clocks, i32 %clock.place
  %clock.begin.time = call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l,~{memory}"()
  store i64 %clock.begin.time, ptr addrspace(1) %clock.begin.at, align 8
  %clock.processor = call i32 asm sideeffect "mov.u32 $0, %smid;", "=r,~{memory}"()
  %clock.processor.at = getelementptr i8, ptr addrspace(1) %clock.begin.at, i64 16
  store i32 %clock.processor, ptr addrspace(1) %clock.processor.at, align 8
  br label %body
)";

// Ends the function, behind a block that is still open.
inline constexpr const char* kBlockClockEnd = R"(  br i1 %clock.wanted, label %clock.left, label %clock.done
clock.left:
  %clock.last.thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %clock.lane = and i32 %clock.last.thread, 31
  %clock.is_one = icmp eq i32 %clock.lane, 0
  br i1 %clock.is_one, label %clock.end, label %clock.done
clock.end:
  %clock.last.block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %clock.last.place = mul i32 %clock.last.block, 24
  %clock.last.at = getelementptr i8, ptr addrspace(1) %clocks, i32 %clock.last.place
  %clock.end.at = getelementptr i8, ptr addrspace(1) %clock.last.at, i64 8
  %clock.end.time = call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l,~{memory}"()
  %clock.end.before = atomicrmw umax ptr addrspace(1) %clock.end.at, i64 %clock.end.time monotonic, align 8
  br label %clock.done
clock.done:
  ret void
)";

}  // namespace smelt
