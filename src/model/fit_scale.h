// Scales for groups of values that become small integers, by weighted least squares.
#pragma once

#include <cstdint>
#include <span>

namespace smelt {

// x[i] is about scale * levels[q[i]]; levels ascend. Returns the scale, 0 where all values are; writes q.
float fit_to_levels(std::span<const float> x, std::span<const float> weight, std::span<const int> levels,
                    std::span<uint8_t> q);

// x[i] is about scale * q[i] - minimum, with q[i] of 0 .. greatest and a scale not below zero; nor is the minimum,
// unless any offset will do.
enum class LineOffset { AtMostZero, Any };
struct LineFit {
  float scale = 0, minimum = 0;
};
LineFit fit_line(std::span<const float> x, std::span<const float> weight, int greatest, LineOffset offset,
                 std::span<uint8_t> q);

// The index of the level nearest to x, the lower one of two.
uint8_t nearest_level(float x, std::span<const int> levels);

}  // namespace smelt
