// What the blocks of a launch on an NVIDIA GPU leave of their time, where somebody wants to know: pieces of LLVM IR
// that every kernel has around its body. The last parameter of a kernel, %clocks, is null, and then nothing is stored;
// or it is the address of a BlockClock for each block, all zeros.
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

// Whose clock it is, and which threads store. No branches: a block that waits for the launch before finds this out
// first, and has nothing else to do for it when it goes on.
inline constexpr const char* kBlockClockFind = R"(  %clock.thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %clock.block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %clock.place = mul i32 %clock.block, 24
  %clock.at = getelementptr i8, ptr addrspace(1) %clocks, i32 %clock.place
  %clock.is_wanted = icmp ne ptr addrspace(1) %clocks, null
  %clock.is_first = icmp eq i32 %clock.thread, 0
  %clock.begins.bit = and i1 %clock.is_wanted, %clock.is_first
  %clock.begins.word = zext i1 %clock.begins.bit to i32
  %clock.begins = call i32 asm sideeffect "", "=r,0"(i32 %clock.begins.word)
  %clock.lane = and i32 %clock.thread, 31
  %clock.is_one = icmp eq i32 %clock.lane, 0
  %clock.ends.bit = and i1 %clock.is_wanted, %clock.is_one
  %clock.ends.word = zext i1 %clock.ends.bit to i32
  %clock.ends = call i32 asm sideeffect "", "=r,0"(i32 %clock.ends.word)
)";

// Behind kBlockClockFind.
inline constexpr const char* kBlockClockBegin =
    "  call void asm sideeffect \"{ .reg .pred idle; .reg .b64 time; .reg .b32 processor; setp.eq.u32 idle, $1, 0; "
    "@idle bra done; mov.u64 time, %globaltimer; st.global.u64 [$0], time; "
    "mov.u32 processor, %smid; st.global.u32 [$0+16], processor; done: }\", "
    "\"l,r,~{memory}\"(ptr addrspace(1) %clock.at, i32 %clock.begins)\n";

// Ends the function, behind a block that is still open.
inline constexpr const char* kBlockClockEnd =
    "  call void asm sideeffect \"{ .reg .pred idle; .reg .b64 time; setp.eq.u32 idle, $1, 0; "
    "@idle bra done; mov.u64 time, %globaltimer; red.global.max.u64 [$0+8], time; done: }\", "
    "\"l,r,~{memory}\"(ptr addrspace(1) %clock.at, i32 %clock.ends)\n"
    "  ret void\n";

}  // namespace smelt
