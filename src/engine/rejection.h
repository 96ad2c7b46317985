// The rejection rule of speculative sampling: a draft that was drawn from probabilities q becomes a token that is
// distributed as p. It stays with probability min(1, p / q); else the token is drawn from what p has over q,
// max(0, p - q). So P(x) = min(p, q) + (1 - sum of min(p, q)) * max(0, p - q) / (sum of max(0, p - q)) = p, and the
// draft stays as often as any rule could have it stay: with probability sum of min(p, q).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/token_probability.h"

namespace smelt {

// `drawn_from`: q, in which the draft is; empty: the draft was not drawn, all of q is on it. `wanted`: p. `uniform`
// gives independent numbers in [0, 1). REQUIRES: `wanted` is not empty, and sums to 1.
int32_t keep_or_replace(int32_t draft, std::span<const TokenProbability> drawn_from,
                        std::span<const TokenProbability> wanted, const std::function<double()>& uniform);

}  // namespace smelt
