// In which order the output loops of a nest run, and whether one of them goes in blocks: what moves the fewest bytes.
#pragma once

#include "codegen/opt.h"

namespace smelt {

// The SPLIT and FRONT options that bring the serial output loops of the nest into the best order. A loop along which
// sums differ in length is not the outermost. `cache_bytes`: what may be counted on to stay in a core's own cache.
std::vector<Opt> choose_loop_order(const Refs& stores, int64_t cache_bytes);

// Whether other loops of the nest differ in length from one iteration of this one to the next.
bool is_ragged(const Refs& stores, Ref axis);

}  // namespace smelt
