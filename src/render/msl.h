// render_msl: Program -> a kernel in the Metal Shading Language, for GPUs of Apple. Pure text and deterministic.
//
//   struct NAME_buffers { device const uchar* in0; .. };
//   kernel void NAME(constant NAME_buffers& buffers [[buffer(0)]], constant long* symbols [[buffer(1)]],
//                    threadgroup uchar* scratch [[threadgroup(0)]], ..)
//
// The buffers of a launch are addresses in memory (an argument buffer), so that there may be any number of them.
// A worker is a threadgroup: part and parts are its position and the number of threadgroups of the grid, which are
// numbered along x only, as threads are. `symbols` are a long each; `scratch` is there if the program has scratch
// memory. Programs for these GPUs have what the language has (Metal 2.4): no f64, and no bfloat, whose bits are shorts.
//
// What the text assumes of its callers:
//   - buffers begin at multiples of kBufferAlign (addresses.h) and do not overlap where the program stores to one of
//     them;
//   - a SIMD group is kWarp threads, neighbours by number;
//   - the compiler neither reassociates floats nor fuses what is no fma: fast math is off.
//
// What floats mean is written in llvm.h, but functions are the language's own.
#pragma once

#include <string>

#include "codegen/program.h"

namespace smelt {

// REQUIRES: problem_of(program) is empty (codegen/program_verify.h), all its values are scalars, and none is f64.
std::string render_msl(const Program& program);

}  // namespace smelt
