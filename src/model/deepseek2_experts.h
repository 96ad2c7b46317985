// The feed-forward part of a block: a dense network, or experts chosen by a router beside a shared one.
#pragma once

#include "model/deepseek2_block.h"

namespace smelt::deepseek2 {

// normed [T, D] -> [T, D]
Tensor feed_forward(Block& b, Tensor normed, bool is_moe);

}  // namespace smelt::deepseek2
