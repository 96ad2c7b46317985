#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "engine/rejection.h"

namespace smelt {
namespace {

Error not_finite(std::span<const float> logits) {
  size_t bad = 0;
  while (std::isfinite(logits[bad])) ++bad;
  return Error{"[sampler] logits: entry " + std::to_string(bad) + " of " + std::to_string(logits.size()) + " is " +
               (std::isnan(logits[bad]) ? "not a number" : "infinite") +
               "; the model file is damaged or its weights overflow"};
}

// What a logit is at least that counts as one of `least`, or of more: a level lower at most (model/token_choice.h).
float least_alike(float least) {
  if (least <= -kMostLogit) return -INFINITY;
  return std::min(least - 2 / static_cast<float>(int64_t{1} << kLevelBits), static_cast<float>(kMostLogit));
}

int64_t random_bits(const RandomWords& words) { return words.first >> (32 - kRandomBits); }

bool by_token(const Candidate& a, const Candidate& b) { return a.token < b.token; }

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options) {}

void Sampler::accept(int32_t token) {
  history_.push_back(token);
  draws_ = 0;
}

// In [0, 1).
double Sampler::uniform() {
  const RandomWords words = threefry(options_.seed, static_cast<uint32_t>(history_.size()), draws_++);
  return ((static_cast<uint64_t>(words.first) << 32 | words.second) >> 11) * 0x1p-53;
}

bool Sampler::is_greedy() const { return options_.temperature <= 0 && options_.temperature_range <= 0; }

std::optional<TokenChoice> Sampler::choice(int64_t vocabulary, int64_t ahead) const {
  const SamplerOptions& o = options_;
  if (changes_logits() || !o.banned.empty()) return std::nullopt;
  if (is_greedy() || o.top_k == 1) return TokenChoice{};
  if (o.typical_p < 1 || o.temperature_range > 0 || (o.xtc_probability > 0 && o.xtc_threshold <= 0.5f))
    return std::nullopt;
  const auto position = static_cast<uint32_t>(static_cast<int64_t>(history_.size()) + ahead);
  return TokenChoice{
      .kind = ChoiceKind::Drawn,
      .numbers = {o.top_k > 0 ? std::min<int64_t>(o.top_k, vocabulary) : vocabulary, share_of(o.top_p),
                  distance_of(o.min_p), scale_of(o.temperature), random_bits(threefry(o.seed, position, 0)), 0}};
}

bool Sampler::changes_logits() const {
  const bool penalises =
      options_.repeat_last_n != 0 &&
      (options_.repeat_penalty != 1 || options_.presence_penalty != 0 || options_.frequency_penalty != 0);
  return penalises || options_.dry.multiplier > 0 || !options_.bias.empty();
}

void Sampler::apply_bias() {
  for (const LogitBias& b : options_.bias)
    if (b.token >= 0 && static_cast<size_t>(b.token) < changed_.size()) changed_[b.token] += b.bias;
}

void Sampler::apply_penalties() {
  const auto all = static_cast<int64_t>(history_.size());
  const int64_t look = options_.repeat_last_n < 0 ? all : std::min<int64_t>(options_.repeat_last_n, all);
  std::vector<int32_t> recent(history_.end() - look, history_.end());
  std::sort(recent.begin(), recent.end());
  for (size_t i = 0, end; i < recent.size(); i = end) {
    const int32_t token = recent[i];
    end = i + 1;
    while (end < recent.size() && recent[end] == token) ++end;
    if (token < 0 || static_cast<size_t>(token) >= changed_.size()) continue;
    float& logit = changed_[token];
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    logit -= options_.presence_penalty + options_.frequency_penalty * static_cast<float>(end - i);
  }
}

void Sampler::apply_dry() {
  if (options_.dry.multiplier <= 0) return;
  for (const DryPenalty& p : dry_penalties(options_.dry, history_))
    if (p.token >= 0 && static_cast<size_t>(p.token) < changed_.size()) changed_[p.token] -= p.penalty;
}

bool Sampler::is_banned(int32_t token) const {
  return std::binary_search(options_.banned.begin(), options_.banned.end(), token);
}

std::span<const float> Sampler::with_changes(std::span<const float> logits) {
  if (!changes_logits()) return logits;
  changed_.assign(logits.begin(), logits.end());
  apply_bias();
  apply_penalties();
  apply_dry();
  scan_.look_at(changed_);
  return changed_;
}

void Sampler::add_candidate(size_t token, float logit) {
  const auto number = static_cast<int32_t>(token);
  if (logit != -INFINITY && !is_banned(number)) candidates_.push_back({number, logit});
}

// All that may be chosen, in order; as far as only the best count, no others than may be among them.
void Sampler::collect_candidates(std::span<const float> logits, std::span<const uint64_t> allowed) {
  candidates_.clear();
  if (allowed.empty()) {
    const size_t best = is_greedy() ? 1 : static_cast<size_t>(std::max(options_.top_k, 0));
    const float least = best == 0 ? -INFINITY : least_alike(scan_.reached_by(best + options_.banned.size()));
    return scan_.for_each_reaching(least, [&](size_t token, float logit) { add_candidate(token, logit); });
  }
  for (size_t word = 0; word < allowed.size(); ++word)
    for (uint64_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
      const size_t token = 64 * word + static_cast<size_t>(std::countr_zero(bits));
      if (token < logits.size()) add_candidate(token, logits[token]);
    }
}

Result<int32_t> Sampler::sample(std::span<const float> logits, std::span<const uint64_t> allowed) {
  SMELT_TRY(certain, narrow(logits, allowed));
  return certain ? *certain : draw();
}

Result<std::vector<TokenProbability>> Sampler::probabilities(std::span<const float> logits,
                                                             std::span<const uint64_t> allowed) {
  SMELT_TRY(certain, narrow(logits, allowed));
  if (certain) return std::vector<TokenProbability>{{*certain, 1}};
  std::vector<TokenProbability> out;
  for (size_t i = 0; i < candidates_.size(); ++i)
    out.push_back({candidates_[i].token, static_cast<double>(weights_[i]) / static_cast<double>(weight_)});
  return out;
}

Result<int32_t> Sampler::sample_with_draft(std::span<const float> logits, int32_t draft,
                                           std::span<const TokenProbability> drawn_from,
                                           std::span<const uint64_t> allowed) {
  SMELT_TRY(wanted, probabilities(logits, allowed));
  return keep_or_replace(draft, drawn_from, wanted, [&] { return uniform(); });
}

// Leaves in candidates_ what a token is drawn from, with weights_; the token itself where nothing is to be drawn.
Result<std::optional<int32_t>> Sampler::narrow(std::span<const float> logits, std::span<const uint64_t> allowed) {
  scan_.look_at(logits);
  if (!scan_.are_finite()) return not_finite(logits);
  if (is_greedy() && !changes_logits() && allowed.empty()) {
    const auto token = static_cast<int32_t>(scan_.greatest());
    if (!is_banned(token)) return std::optional<int32_t>(token);
  }
  collect_candidates(with_changes(logits), allowed);
  if (candidates_.empty() && !allowed.empty()) return Error{"[sampler] the grammar allows no token of the vocabulary"};
  if (candidates_.empty())
    return Error{"[sampler] every token of the vocabulary ends the text; run without --ignore-eos"};
  if (is_greedy())
    return std::optional<int32_t>(std::min_element(candidates_.begin(), candidates_.end(), is_better)->token);
  return filter();
}

std::optional<int32_t> Sampler::filter() {
  const bool drops_best = options_.xtc_probability > 0 && options_.xtc_threshold <= 0.5f;
  if (options_.top_k > 0 || options_.typical_p < 1) {
    keep_top_k(candidates_, options_.top_k);
    keep_typical(candidates_, options_.typical_p);
    keep_top_p(candidates_, options_.top_p);
  } else if (options_.top_p < 1 || drops_best || options_.temperature_range > 0) {
    sort_top_p(candidates_, options_.top_p);
  }
  keep_min_p(candidates_, options_.min_p);
  // A draw only where it matters, so that the others stay as they are for a seed.
  if (drops_best && uniform() < options_.xtc_probability) drop_top_choices(candidates_, options_.xtc_threshold);
  double temperature = options_.temperature;
  if (options_.temperature_range > 0)
    temperature =
        dynamic_temperature(candidates_, temperature, options_.temperature_range, options_.temperature_exponent);
  if (temperature <= 0) return candidates_.front().token;
  if (!std::is_sorted(candidates_.begin(), candidates_.end(), by_token))
    std::sort(candidates_.begin(), candidates_.end(), by_token);
  weight_ = softmax_weights(candidates_, temperature, weights_);
  return std::nullopt;
}

int32_t Sampler::draw() {
  const RandomWords words = threefry(options_.seed, static_cast<uint32_t>(history_.size()), draws_++);
  int64_t left = part_to_pass(weight_, random_bits(words));
  size_t chosen = 0;
  while (left >= weights_[chosen]) left -= weights_[chosen++];
  return candidates_[chosen].token;
}

int32_t Sampler::draw(std::span<const TokenProbability> probabilities) {
  double left = uniform();
  size_t chosen = 0;
  while (chosen + 1 < probabilities.size() && left >= probabilities[chosen].probability)
    left -= probabilities[chosen++].probability;
  return probabilities[chosen].token;
}

}  // namespace smelt
