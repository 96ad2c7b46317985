#include "engine/sampler_filters.h"

#include <algorithm>
#include <cmath>

#include "model/token_choice.h"

namespace smelt {
namespace {

int32_t best_level(const std::vector<Candidate>& candidates) {
  float best = candidates.front().logit;
  for (const Candidate& c : candidates) best = std::max(best, c.logit);
  return level_of(best);
}

int64_t distance_of(const Candidate& c, int32_t best) {
  return std::min<int64_t>(int64_t{best} - level_of(c.logit), kMostDistance);
}

// Whether one of the sorted candidates is the first of all, or like the one before it: they stay together.
bool is_alike_before(const std::vector<Candidate>& candidates, size_t i) {
  return i == 0 || level_of(candidates[i].logit) == level_of(candidates[i - 1].logit);
}

std::vector<double> probabilities(const std::vector<Candidate>& candidates) {
  std::vector<double> p;
  double sum = 0;
  for (const Candidate& c : candidates) {
    p.push_back(std::exp(double(c.logit) - double(candidates.front().logit)));
    sum += p.back();
  }
  for (double& x : p) x /= sum;
  return p;
}

double entropy_of(const std::vector<double>& p) {
  double entropy = 0;
  for (double x : p)
    if (x > 0) entropy -= x * std::log(x);
  return entropy;
}

// Sorts the best ones behind the first `sorted`, four times as many as are sorted already, or all. How many are now.
size_t sort_more(std::vector<Candidate>& candidates, size_t sorted) {
  const size_t all = candidates.size(), until = std::max<size_t>(128, 5 * sorted);
  const auto first = candidates.begin() + static_cast<std::ptrdiff_t>(sorted);
  if (until >= all / 4) {
    std::sort(first, candidates.end(), is_better);
    return all;
  }
  std::partial_sort(first, candidates.begin() + static_cast<std::ptrdiff_t>(until), candidates.end(), is_better);
  return until;
}

}  // namespace

bool is_better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

int64_t softmax_weights(const std::vector<Candidate>& candidates, double temperature, std::vector<int64_t>& weights) {
  const int32_t best = best_level(candidates);
  const int64_t scale = scale_of(temperature);
  weights.clear();
  int64_t sum = 0;
  for (const Candidate& c : candidates) {
    weights.push_back(weight_of(distance_of(c, best), scale));
    sum += weights.back();
  }
  return sum;
}

void keep_top_k(std::vector<Candidate>& candidates, int32_t k) {
  if (k > 0 && static_cast<size_t>(k) < candidates.size()) {
    const auto last = candidates.begin() + (k - 1);
    std::nth_element(candidates.begin(), last, candidates.end(), is_better);
    const int32_t least = level_of(last->logit);
    const auto is_alike = [&](const Candidate& c) { return k > 1 && level_of(c.logit) >= least; };
    candidates.erase(std::partition(last + 1, candidates.end(), is_alike), candidates.end());
  }
  std::sort(candidates.begin(), candidates.end(), is_better);
}

void keep_top_p(std::vector<Candidate>& candidates, float p) {
  if (p >= 1 || candidates.empty()) return;
  std::vector<int64_t> weights;
  const int64_t enough = part_to_reach(softmax_weights(candidates, 1, weights), share_of(p));
  int64_t sum = 0;
  size_t kept = 0;
  while (kept < candidates.size() && (sum < enough || is_alike_before(candidates, kept))) sum += weights[kept++];
  candidates.resize(kept);
}

void sort_top_p(std::vector<Candidate>& candidates, float p) {
  if (p >= 1 || candidates.empty()) return std::sort(candidates.begin(), candidates.end(), is_better);
  std::vector<int64_t> weights;
  const int64_t enough = part_to_reach(softmax_weights(candidates, 1, weights), share_of(p));
  const int32_t best = best_level(candidates);
  const int64_t scale = scale_of(1);
  int64_t sum = 0;
  size_t kept = 0;
  for (size_t sorted = 0; kept < candidates.size(); ++kept) {
    if (kept == sorted) sorted = sort_more(candidates, sorted);
    if (sum >= enough && !is_alike_before(candidates, kept)) break;
    sum += weight_of(distance_of(candidates[kept], best), scale);
  }
  candidates.resize(kept);
}

void keep_min_p(std::vector<Candidate>& candidates, float p) {
  if (p <= 0 || candidates.empty()) return;
  const int32_t best = best_level(candidates);
  const int64_t most = distance_of(p);
  std::erase_if(candidates, [&](const Candidate& c) { return distance_of(c, best) > most; });
}

void keep_typical(std::vector<Candidate>& candidates, float p) {
  if (p >= 1 || candidates.empty()) return;
  const std::vector<double> probability = probabilities(candidates);
  const double expected = entropy_of(probability);
  std::vector<size_t> order(candidates.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto distance = [&](size_t i) { return std::abs(-std::log(probability[i]) - expected); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return distance(a) < distance(b); });
  double sum = 0;
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || sum < p)) sum += probability[order[kept++]];
  order.resize(kept);
  std::sort(order.begin(), order.end());
  std::vector<Candidate> typical;
  for (size_t i : order) typical.push_back(candidates[i]);
  candidates = std::move(typical);
}

void drop_top_choices(std::vector<Candidate>& candidates, float threshold) {
  const std::vector<double> probability = probabilities(candidates);
  size_t above = 0;
  while (above < probability.size() && probability[above] >= threshold) ++above;
  if (above > 1) candidates.erase(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(above - 1));
}

double dynamic_temperature(const std::vector<Candidate>& candidates, double temperature, double range,
                           double exponent) {
  const double least = std::max(0.0, temperature - range), most = temperature + range;
  if (candidates.size() < 2) return least;
  const double part = entropy_of(probabilities(candidates)) / std::log(static_cast<double>(candidates.size()));
  return least + (most - least) * std::pow(part, exponent);
}

}  // namespace smelt
