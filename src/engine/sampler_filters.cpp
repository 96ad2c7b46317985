#include "engine/sampler_filters.h"

#include <algorithm>
#include <cmath>

namespace smelt {
namespace {

std::vector<double> probabilities(const std::vector<Candidate>& candidates) {
  std::vector<double> p;
  const double sum = softmax_weights(candidates, 1, p);
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

double softmax_weights(const std::vector<Candidate>& candidates, double scale, std::vector<double>& weights) {
  weights.clear();
  double sum = 0;
  for (const Candidate& c : candidates) {
    weights.push_back(std::exp((double(c.logit) - double(candidates.front().logit)) * scale));
    sum += weights.back();
  }
  return sum;
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

void sort_top_p(std::vector<Candidate>& candidates, float p) {
  if (p >= 1 || candidates.empty()) return std::sort(candidates.begin(), candidates.end(), is_better);
  std::iter_swap(candidates.begin(), std::min_element(candidates.begin(), candidates.end(), is_better));
  std::vector<double> weights;
  const double enough = p * softmax_weights(candidates, 1, weights);
  const double best = candidates.front().logit;
  double sum = 0;
  size_t kept = 0;
  for (size_t sorted = 0; kept < candidates.size() && (kept == 0 || sum < enough); ++kept) {
    if (kept == sorted) sorted = sort_more(candidates, sorted);
    sum += std::exp(candidates[kept].logit - best);
  }
  candidates.resize(kept);
}

void keep_min_p(std::vector<Candidate>& candidates, float p) {
  if (p <= 0 || candidates.empty()) return;
  const double least = candidates.front().logit + std::log(static_cast<double>(p));
  const auto below = [&](const Candidate& c) { return c.logit < least; };
  candidates.erase(std::find_if(candidates.begin() + 1, candidates.end(), below), candidates.end());
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
