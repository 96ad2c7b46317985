// DraftChoice: which token the logits of a drafter give a draft. The most likely one; or, where it is told how the text
// is sampled, one that is drawn in the same way, for the rejection rule (rejection.h).
#pragma once

#include <optional>
#include <span>

#include "engine/drafter.h"
#include "engine/sampler.h"

namespace smelt {

// The most likely token; nothing where it is less likely than `least_probability`.
std::optional<int32_t> likely_token(std::span<const float> logits, double least_probability);

class DraftChoice {
 public:
  // `draws`: by the temperature and the filters of the sampler. Penalties are left out: they belong to the text, which
  // a draft is only near.
  DraftChoice(double least_probability, bool draws) : least_(least_probability), draws_(draws) {}

  void sample_like(const SamplerOptions& options);
  // Nothing where a draft ends: what comes next is less likely than it has to be, or the logits are no numbers.
  std::optional<DraftToken> choose(std::span<const float> logits);

 private:
  double least_;
  bool draws_;
  std::optional<Sampler> sampler_;
};

}  // namespace smelt
