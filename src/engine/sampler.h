// Sampler: from logits to the next token. The steps and their order are those of llama.cpp, so that the same flags mean
// the same here: logit bias, penalties, DRY, banned tokens, top-k, typical, top-p, min-p, XTC, temperature, draw. At
// temperature 0 the most likely token is taken behind the banned ones. What is drawn is exactly defined
// (model/token_choice.h): the same wherever it is done, for a seed and a position.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/dry.h"
#include "engine/logit_scan.h"
#include "engine/sampler_filters.h"
#include "engine/token_choice.h"
#include "engine/token_probability.h"

namespace smelt {

struct LogitBias {
  int32_t token = 0;
  float bias = 0;
};

struct SamplerOptions {
  float temperature = 0.8f;     // 0 or less: the most likely token, always
  float temperature_range = 0;  // how far the temperature moves with what the model is sure of; 0: not at all
  float temperature_exponent = 1;
  int32_t top_k = 40;           // keep the k best; 0 or less: all
  float top_p = 0.95f;          // keep the best whose probabilities reach p; 1 or more: all
  float min_p = 0.05f;          // keep those at least min_p times as likely as the best; 0 or less: all
  float repeat_penalty = 1.0f;  // divides positive and multiplies negative logits of recent tokens; 1: off
  int32_t repeat_last_n = 64;   // how many recent tokens penalties look at; 0: none, negative: all
  float presence_penalty = 0;   // taken from the logits of recent tokens
  float frequency_penalty = 0;  // the same, as often as they occurred
  float typical_p = 1;          // keep the most typical whose probabilities reach p; 1 or more: all
  float xtc_probability = 0;    // how often all but the last of several likely tokens are dropped
  float xtc_threshold = 0.1f;   // from which probability on a token is likely; over 0.5: never
  DryOptions dry;
  std::vector<LogitBias> bias;
  std::vector<int32_t> banned;  // never chosen, ascending (`--ignore-eos`: the stop tokens)
  uint64_t seed = 0;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);

  // Tells of a token in the context (of the prompt, or sampled), for what looks at recent ones.
  void accept(int32_t token);

  // The next token. `allowed` has a bit for each token that may be chosen (grammar/constraint.h); empty: all may. An
  // Error names the entry if a logit is not a finite number, or says that no token may be chosen. Does not accept() by
  // itself.
  Result<int32_t> sample(std::span<const float> logits, std::span<const uint64_t> allowed = {});

  // What sample() draws from, in the order in which it looks at them; the sum is 1. Where tokens are dropped by chance
  // (XTC), that chance is taken now.
  Result<std::vector<TokenProbability>> probabilities(std::span<const float> logits,
                                                      std::span<const uint64_t> allowed = {});
  int32_t draw(std::span<const TokenProbability> probabilities);

  // The next token where a draft of it is there, which was drawn from `drawn_from`: the draft as often as possible, and
  // any token as often as from sample(). See keep_or_replace().
  Result<int32_t> sample_with_draft(std::span<const float> logits, int32_t draft,
                                    std::span<const TokenProbability> drawn_from,
                                    std::span<const uint64_t> allowed = {});

  // How the token behind `ahead` more than have been accepted is chosen where logits are, which is then the one that
  // sample() would give; nothing where that needs more than Choice says.
  std::optional<TokenChoice> choice(int64_t vocabulary, int64_t ahead) const;

  const SamplerOptions& options() const { return options_; }

 private:
  bool is_greedy() const;
  double uniform();
  bool changes_logits() const;
  void apply_bias();
  void apply_penalties();
  void apply_dry();
  bool is_banned(int32_t token) const;
  std::span<const float> with_changes(std::span<const float> logits);
  void add_candidate(size_t token, float logit);
  void collect_candidates(std::span<const float> logits, std::span<const uint64_t> allowed);
  Result<std::optional<int32_t>> narrow(std::span<const float> logits, std::span<const uint64_t> allowed);
  std::optional<int32_t> filter();
  int32_t draw();

  SamplerOptions options_;
  std::vector<int32_t> history_;
  uint32_t draws_ = 0;  // of the token that is next
  LogitScan scan_;
  std::vector<float> changed_;  // logits with bias and penalties; reused from token to token, as those below
  std::vector<Candidate> candidates_;
  std::vector<int64_t> weights_;  // of the candidates that are left
  int64_t weight_ = 0;            // their sum
};

}  // namespace smelt
