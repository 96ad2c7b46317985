// Logprobs: the logarithms of the probabilities that a model gave, before any sampler changed them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace smelt {

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
  bool operator==(const TokenLogprob&) const = default;
};

struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the most likely ones, best first
};

// REQUIRES: the logits are finite, `chosen` is one of theirs, top >= 0.
Logprobs logprobs_of(std::span<const float> logits, int32_t chosen, int32_t top);

}  // namespace smelt
