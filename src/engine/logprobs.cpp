#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>

namespace smelt {

Logprobs logprobs_of(std::span<const float> logits, int32_t chosen, int32_t top) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float x : logits) sum += std::exp(x - best);
  const double whole = best + std::log(sum);
  const auto of = [&](int32_t token) { return TokenLogprob{token, static_cast<float>(logits[token] - whole)}; };

  std::vector<int32_t> tokens(logits.size());
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  const auto count = static_cast<std::ptrdiff_t>(std::min(tokens.size(), static_cast<size_t>(top)));
  std::partial_sort(tokens.begin(), tokens.begin() + count, tokens.end(),
                    [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  Logprobs result{of(chosen), {}};
  for (auto token = tokens.begin(); token != tokens.begin() + count; ++token) result.top.push_back(of(*token));
  return result;
}

}  // namespace smelt
