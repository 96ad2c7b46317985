// Random weights as blocks of any format, with finite values of a chosen size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gguf/types.h"

namespace smelt {

// Fills `to` with whole blocks whose values have this mean and standard deviation, roughly. Scales vary from block to
// block, as those of trained weights do. `mean` is for plain types (F32, F16, BF16); quantised values are around 0.
// REQUIRES: `to` is whole blocks; info_of(type).supported.
void fill_with_random_blocks(GgufType type, double mean, double deviation, uint64_t seed, std::span<std::byte> to);

}  // namespace smelt
