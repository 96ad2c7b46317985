// Sampler: from logits to the next token. The filters and their order are those of llama.cpp, so
// that the same flags mean the same here: banned tokens, repetition penalty, top-k, top-p, min-p,
// temperature, draw.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/result.h"

namespace smelt {

struct SamplerOptions {
  float temperature = 0.8f;     // 0 or less: the most likely token, always
  int32_t top_k = 40;           // keep the k best; 0 or less: all
  float top_p = 0.95f;          // keep the best whose probabilities reach p; 1 or more: all
  float min_p = 0.05f;          // keep those at least min_p times as likely as the best; 0 or less: all
  float repeat_penalty = 1.0f;  // divides positive and multiplies negative logits of recent tokens; 1: off
  int32_t repeat_last_n = 64;   // how many recent tokens that looks at; 0: none, negative: all
  std::vector<int32_t> banned;  // never chosen, ascending (`--ignore-eos`: the stop tokens)
  uint64_t seed = 0;
};

struct Candidate {
  int32_t token;
  float logit;
  bool operator==(const Candidate&) const = default;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);

  // Tells of a token in the context (of the prompt, or sampled), for the repetition penalty.
  void accept(int32_t token);

  // The next token. `allowed` has a bit for each token that may be chosen (grammar/constraint.h); empty: all may. An
  // Error names the entry if a logit is not a finite number, or says that no token may be chosen. Does not accept() by
  // itself.
  Result<int32_t> sample(std::span<const float> logits, std::span<const uint64_t> allowed = {});

 private:
  void apply_repeat_penalty();
  void drop_banned();
  void keep_allowed(std::span<const uint64_t> allowed);

  SamplerOptions options_;
  std::mt19937_64 random_;
  std::vector<int32_t> history_;
  std::vector<Candidate> candidates_;  // reused from token to token
  std::vector<double> weights_;
};

// --- the single steps. Candidates are sorted, best first (ties: lower token first), except where noted.
bool is_better(const Candidate& a, const Candidate& b);
void keep_top_k(std::vector<Candidate>& candidates, int32_t k);  // in any order before; sorts them
void keep_top_p(std::vector<Candidate>& candidates, float p);
void keep_min_p(std::vector<Candidate>& candidates, float p);

}  // namespace smelt
