// Blocks of the formats with codebooks: IQ1, IQ2 and IQ3.
#pragma once

#include "model/block_writer.h"

namespace smelt {

// REQUIRES: `type` is one of IQ1_S .. IQ3_S; 256 values, with how much each matters.
void put_codebook_block(GgufType type, std::span<const float> x, std::span<const float> weight,
                        const BlockWriter& block);

}  // namespace smelt
