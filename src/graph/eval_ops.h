// Elementwise ops of the interpreter, over runs of doubles. Private to eval.cpp.
#pragma once

#include <cstddef>
#include <span>

#include "graph/node.h"

namespace smelt {

// out[k] = node's op on src[0][k], src[1][k], ... Everything but Bitcast.
void apply_to_run(const Node& node, std::span<const double* const> src, size_t count, bool round_f32, double* out);

}  // namespace smelt
