#include "engine/draft_choice.h"

#include <algorithm>
#include <cmath>

namespace smelt {

std::optional<int32_t> likely_token(std::span<const float> logits, double least_probability) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (least_probability > 0) {
    double sum = 0;  // of what the best one counts 1
    for (float logit : logits) sum += std::exp(static_cast<double>(logit - *best));
    if (!(1 / sum >= least_probability)) return std::nullopt;
  }
  return static_cast<int32_t>(best - logits.begin());
}

}  // namespace smelt
