// The order of the output loops of a nest, and whether one of them is blocked: what has the least memory traffic.
#pragma once

#include "codegen/opt.h"

namespace smelt {

// The SPLIT and FRONT options that bring the serial output loops of the nest into the best order. A loop along which
// sums differ in length is not the outermost. `cache_bytes`: the largest working set that stays in a core's own cache.
std::vector<Opt> choose_loop_order(const Refs& stores, int64_t cache_bytes);

// Whether the trip counts of other loops of the nest depend on this one.
bool is_ragged(const Refs& stores, Ref axis);

}  // namespace smelt
