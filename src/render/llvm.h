// render_llvm: Program -> LLVM 19 IR as text, for the CPUs. Pure text and deterministic; LLVM
// itself is not used here.
//
//   define void @NAME(ptr %buffers, ptr %symbols, i64 %part, i64 %parts, ptr %scratch, i64 %begins)
//
// the entry of runtime/cpu/kernel_entry.h.
//
// What the text assumes of its callers:
//   - a buffer that the program stores to is passed under one argument only (loads and stores of
//     different arguments carry alias scopes; loads of a buffer that is never stored to are
//     invariant);
//   - scratch memory is the worker's own: `scratch_bytes` of it, aligned to 64 bytes.
//
// Products of matrices: with AMX, the function sets the shapes of tile registers when it begins and releases them when
// it ends, so between launches no thread has any in use.
//
// What floats mean: single operations are IEEE; nothing is fused that is not an Fma (which is rounded once where the
// machine has it, twice where not), nothing is reassociated. Max(x, y) is `x > y ? x : y` and Min `x < y ? x : y`: y
// where one of them is NaN. Exp2 is within 1.25 ulps and may flush subnormal results to 0, Log2 is
// within 2.5 ulps and takes subnormal arguments. On a GPU Exp2 and Div of f32 are within 2 ulps.
#pragma once

#include <string>

#include "base/machine.h"
#include "codegen/program.h"

namespace smelt {

// REQUIRES: problem_of(program) is empty (codegen/program_verify.h).
std::string render_llvm(const Program& program, const Machine& machine);

}  // namespace smelt
