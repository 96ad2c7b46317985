// Numbers that the meaning of ops fixes.
#pragma once

#include <cstdint>

namespace smelt {

constexpr double kLowest = -3.4028234663852886e38;  // of F32: where a maximum of floats begins (ReduceMax, SoftmaxSum)
constexpr double kLog2E = 1.4426950408889634;       // exp(x) is exp2(x * kLog2E)
constexpr int64_t kSignedBytes = -1;                // of ScaledHalves
constexpr double kHalfUnit = 64;  // of ScaledHalves: the bits of a bf16 that a byte is, times 2^127, are byte / 64
constexpr double kMaskedScore = -1e29;  // of a softmax: one as low as this stands for "not there"

}  // namespace smelt
