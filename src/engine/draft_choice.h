// Which token a model's logits give a draft.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace smelt {

// The most likely token; nothing where it is less likely than `least_probability`.
std::optional<int32_t> likely_token(std::span<const float> logits, double least_probability);

}  // namespace smelt
