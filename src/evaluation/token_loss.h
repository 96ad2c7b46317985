#pragma once

#include <cstdint>
#include <span>

namespace smelt {

// -log softmax(logits)[token], in double precision.
double negative_log_probability(std::span<const float> logits, int32_t token);

}  // namespace smelt
