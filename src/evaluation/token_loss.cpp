#include "evaluation/token_loss.h"

#include <algorithm>
#include <cmath>

namespace smelt {

double negative_log_probability(std::span<const float> logits, int32_t token) {
  double best = logits[0];
  for (float x : logits) best = std::max(best, static_cast<double>(x));
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x) - best);
  return std::log(sum) + best - static_cast<double>(logits[static_cast<size_t>(token)]);
}

}  // namespace smelt
