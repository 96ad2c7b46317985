// Numbers that the meaning of ops fixes.
#pragma once

namespace smelt {

constexpr double kLowest = -3.4028234663852886e38;  // of F32: where a maximum of floats begins (ReduceMax, SoftmaxSum)
constexpr double kLog2E = 1.4426950408889634;       // exp(x) is exp2(x * kLog2E)
constexpr double kMaskedScore = -1e29;              // of a softmax: one as low as this stands for "not there"

}  // namespace smelt
