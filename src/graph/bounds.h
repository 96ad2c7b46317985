// Bounds of integers: interval arithmetic, op by op. Nodes have theirs (Node::min, max); those of programs are
// codegen/known_bounds.h.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "graph/node.h"

namespace smelt {

struct Bounds {
  int64_t min = 0, max = 0;  // both included
  bool operator==(const Bounds&) const = default;
};

constexpr Bounds kNoBounds{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};

// What an integer or bool of the dtype can be; no bounds for floats, and for integers of 64 bits.
Bounds limits_of(DType dtype);
bool fits(Bounds bounds, DType dtype);

// Of an op as if its arithmetic were exact, by the bounds of its sources; those of a float are none. Saturating.
Bounds exact_bounds(Op op, const Arg& arg, std::span<const Bounds> src);

// Of its value: the limits of the dtype where the arithmetic may wrap.
Bounds bounds_of(Op op, DType dtype, const Arg& arg, std::span<const Bounds> src);

}  // namespace smelt
