// Latent attention of a block: queries, the cache, and its two forms (absorbed and expanded).
#pragma once

#include "model/deepseek2_block.h"

namespace smelt::deepseek2 {

struct Attended {
  Tensor out;          // [T, D]
  Refs written_cache;  // the parts of the cache, with the rows of this step
};

// normed [T, D]
Attended attention(Block& b, Tensor normed);

}  // namespace smelt::deepseek2
