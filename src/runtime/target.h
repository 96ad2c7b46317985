// CPU targets: this machine, or another one by name to compile for without running.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"

namespace smelt {

// What this machine has and its operating system has enabled. Found out once per process.
const CpuTarget& host_target();

// The threads that a wish for `threads` stands for: 0 is one for each core.
int thread_count(int threads);

// "host", "x86-64-v2" (SSE), "x86-64-v3" (AVX2), "x86-64-v4" (AVX-512), "sapphirerapids", "znver4",
// "alderlake" (AVX2 and AVX-VNNI), "aarch64" (NEON), "neoverse-n1" (NEON with dot products), "neoverse-v1" (and i8mm).
Result<CpuTarget> named_target(std::string_view name);

// Where a processor lacks what kernels of its kind are fastest with: a sentence for the user that says what they use
// instead. Else empty. Matrix units (AMX) are not expected, but if there are some that the system refuses, this says
// so.
std::string missing_instructions(const CpuTarget& target);

}  // namespace smelt
