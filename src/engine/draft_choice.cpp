#include "engine/draft_choice.h"

#include <algorithm>
#include <cmath>

namespace smelt {
namespace {

constexpr uint64_t kOtherSeed = 0x9e3779b97f4a7c15;  // drafts and the text are drawn independently

}  // namespace

std::optional<int32_t> likely_token(std::span<const float> logits, double least_probability) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (least_probability > 0) {
    double sum = 0;  // of what the best one counts 1
    for (float logit : logits) sum += std::exp(static_cast<double>(logit - *best));
    if (!(1 / sum >= least_probability)) return std::nullopt;
  }
  return static_cast<int32_t>(best - logits.begin());
}

void DraftChoice::sample_like(const SamplerOptions& options) {
  sampler_.reset();
  if (!draws_ || options.temperature <= 0) return;
  sampler_.emplace(SamplerOptions{.temperature = options.temperature,
                                  .top_k = options.top_k,
                                  .top_p = options.top_p,
                                  .min_p = options.min_p,
                                  .typical_p = options.typical_p,
                                  .seed = options.seed ^ kOtherSeed});
}

std::optional<DraftToken> DraftChoice::choose(std::span<const float> logits) {
  const auto likely = likely_token(logits, least_);
  if (!likely) return std::nullopt;
  if (!sampler_) return DraftToken{*likely};
  auto probabilities = sampler_->probabilities(logits);
  if (!probabilities) return std::nullopt;
  const int32_t token = sampler_->draw(*probabilities);
  return DraftToken{token, probabilities.take()};
}

}  // namespace smelt
