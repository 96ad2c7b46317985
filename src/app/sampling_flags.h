// The options that say how to choose tokens, of every command that writes text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/sampler.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace smelt {

// Where a member is empty, it was not given.
struct SamplingFlags {
  std::optional<float> temperature, temperature_range, temperature_exponent;
  std::optional<float> top_p, min_p, typical_p, xtc_probability, xtc_threshold;
  std::optional<float> repeat_penalty, presence_penalty, frequency_penalty;
  std::optional<float> dry_multiplier, dry_base;
  std::optional<int32_t> top_k, repeat_last_n, dry_allowed_length, dry_last_n;
  std::optional<int64_t> seed;
  std::vector<std::string> dry_breakers, biases;
};

// `otherwise`: what is taken for those of the usual ones that are not given, for the help.
void declare_sampling_flags(CLI::App& app, SamplingFlags& flags, const std::string& otherwise);

// `usual` with what was given instead; a new seed where none was. An Error names what is no token of the vocabulary.
Result<SamplerOptions> sampling_of(const SamplingFlags& flags, SamplerOptions usual, const Tokenizer& tokenizer);

}  // namespace smelt
