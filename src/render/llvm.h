// render_llvm: Program -> LLVM 19 IR as text, for the CPUs. Pure text and deterministic; LLVM
// itself is not used here.
//
//   define void @NAME(ptr %buffers, ptr %symbols, i64 %part, i64 %parts)
//
// the entry of runtime/kernel_entry.h.
//
// What the text assumes of its callers:
//   - a buffer that the program stores to is passed under one argument only (loads and stores of
//     different arguments carry alias scopes; loads of a buffer that is never stored to are
//     invariant);
//   - scratch memory is the kernel's own: it lies on the stack, so `scratch_bytes` must fit a
//     worker's stack.
//
// Products of matrices: with AMX, the function sets the shapes of tile registers when it begins and releases them when
// it ends, so between launches no thread has any in use.
//
// What floats mean: single operations are IEEE; a multiplication whose result is added may be fused
// (`contract`), nothing is reassociated. Max(x, y) is `x > y ? x : y` and Min `x < y ? x : y`: y
// where one of them is NaN. Exp2 is within 1.25 ulps and may flush subnormal results to 0, Log2 is
// within 2.5 ulps and takes subnormal arguments.
#pragma once

#include <string>

#include "base/target.h"
#include "codegen/program.h"

namespace smelt {

// How sums of four products of bytes are made.
enum class ByteDot : uint8_t {
  Plain,     // by shifts and multiplications
  Madd,      // SSSE3, AVX2, AVX-512BW: pmaddubsw and pmaddwd
  Vnni,      // AVX512-VNNI, AVX-VNNI: vpdpbusd
  NeonDot,   // sdot: both sides signed
  NeonI8mm,  // usdot
};

struct LlvmOptions {
  // x86: the widest register that has a byte shuffle (16 SSSE3, 32 AVX2, 64 AVX-512BW); 0: none.
  int pshufb_bytes = 64;
  bool neon = false;  // AArch64: has a byte shuffle of 16 bytes
  ByteDot dot = ByteDot::Vnni;
  int dot_bytes = 64;       // width of a register for it
  bool amx_int8 = false;    // products of matrices of bytes by tiles
  bool f16_convert = true;  // half <-> float in hardware, else in integer instructions
  int vector_bits = 512;    // width of a register that is worth using
};

LlvmOptions llvm_options(const CpuTarget& target);

// REQUIRES: problem_of(program) is empty (codegen/program_verify.h).
std::string render_llvm(const Program& program, const LlvmOptions& options);

}  // namespace smelt
