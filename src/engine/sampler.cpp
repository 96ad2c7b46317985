#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace smelt {
namespace {

Status check_finite(std::span<const float> logits) {
  // One addition an entry: anything that is not finite stays so in the sum of x - x.
  float probe = 0;
  for (float x : logits) probe += x - x;
  if (probe == 0) return {};
  size_t bad = 0;
  while (std::isfinite(logits[bad])) ++bad;
  return Error{"[sampler] logits: entry " + std::to_string(bad) + " of " + std::to_string(logits.size()) + " is " +
               (std::isnan(logits[bad]) ? "not a number" : "infinite") +
               "; the model file is damaged or its weights overflow"};
}

int32_t most_likely(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// exp(logit * scale - best) of each candidate, not normalised, and their sum.
double softmax_weights(const std::vector<Candidate>& candidates, double scale, std::vector<double>& weights) {
  weights.clear();
  double sum = 0;
  for (const Candidate& c : candidates) {
    weights.push_back(std::exp((double(c.logit) - double(candidates.front().logit)) * scale));
    sum += weights.back();
  }
  return sum;
}

// Uniform in [0, 1): written here because the standard leaves its distributions to the library's makers.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

bool is_better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

void keep_top_k(std::vector<Candidate>& candidates, int32_t k) {
  if (k > 0 && static_cast<size_t>(k) < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), is_better);
    candidates.resize(k);
  }
  std::sort(candidates.begin(), candidates.end(), is_better);
}

void keep_top_p(std::vector<Candidate>& candidates, float p) {
  if (p >= 1 || candidates.empty()) return;
  std::vector<double> weights;
  const double enough = p * softmax_weights(candidates, 1, weights);
  double sum = 0;
  size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || sum < enough)) sum += weights[kept++];
  candidates.resize(kept);
}

void keep_min_p(std::vector<Candidate>& candidates, float p) {
  if (p <= 0 || candidates.empty()) return;
  const double least = candidates.front().logit + std::log(static_cast<double>(p));
  const auto below = [&](const Candidate& c) { return c.logit < least; };
  candidates.erase(std::find_if(candidates.begin() + 1, candidates.end(), below), candidates.end());
}

Sampler::Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}

void Sampler::accept(int32_t token) { history_.push_back(token); }

// Each recent token is punished once, however often it occurred. REQUIRES: candidates_[i].token == i.
void Sampler::apply_repeat_penalty() {
  const auto all = static_cast<int64_t>(history_.size());
  const int64_t look = options_.repeat_last_n < 0 ? all : std::min<int64_t>(options_.repeat_last_n, all);
  std::vector<int32_t> recent(history_.end() - look, history_.end());
  std::sort(recent.begin(), recent.end());
  recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
  for (int32_t token : recent) {
    if (token < 0 || static_cast<size_t>(token) >= candidates_.size()) continue;
    float& logit = candidates_[token].logit;
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
}

void Sampler::drop_banned() {
  const auto is_banned = [&](const Candidate& c) {
    return std::binary_search(options_.banned.begin(), options_.banned.end(), c.token);
  };
  candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), is_banned), candidates_.end());
}

void Sampler::keep_allowed(std::span<const uint64_t> allowed) {
  std::erase_if(candidates_, [&](const Candidate& c) {
    const auto token = static_cast<size_t>(c.token);
    return token / 64 >= allowed.size() || (allowed[token / 64] >> (token % 64) & 1) == 0;
  });
}

Result<int32_t> Sampler::sample(std::span<const float> logits, std::span<const uint64_t> allowed) {
  SMELT_CHECK(check_finite(logits));
  const bool penalise = options_.repeat_penalty != 1 && options_.repeat_last_n != 0;
  if (options_.temperature <= 0 && !penalise && options_.banned.empty() && allowed.empty()) return most_likely(logits);

  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates_[i] = {static_cast<int32_t>(i), logits[i]};
  if (penalise) apply_repeat_penalty();
  if (!options_.banned.empty()) drop_banned();
  if (!allowed.empty()) keep_allowed(allowed);
  if (candidates_.empty() && !allowed.empty()) return Error{"[sampler] the grammar allows no token of the vocabulary"};
  if (candidates_.empty())
    return Error{"[sampler] every token of the vocabulary ends the text; run without --ignore-eos"};
  if (options_.temperature <= 0) return std::min_element(candidates_.begin(), candidates_.end(), is_better)->token;

  keep_top_k(candidates_, options_.top_k);
  keep_top_p(candidates_, options_.top_p);
  keep_min_p(candidates_, options_.min_p);
  double left = uniform(random_) * softmax_weights(candidates_, 1.0 / options_.temperature, weights_);
  size_t chosen = 0;
  while (chosen + 1 < candidates_.size() && left >= weights_[chosen]) left -= weights_[chosen++];
  return candidates_[chosen].token;
}

}  // namespace smelt
