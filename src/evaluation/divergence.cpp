#include "evaluation/divergence.h"

#include <algorithm>
#include <cmath>

#include "evaluation/logits_file.h"

namespace smelt {

void Divergence::add(std::span<const double> base, std::span<const float> logits) {
  const auto top = std::max_element(logits.begin(), logits.end()), first = logits.begin();
  double sum = 0;
  for (float x : logits) sum += std::exp(double{x} - *top);
  const double log_sum = std::log(sum) + *top;
  double divergence = 0;
  for (size_t i = 0; i < base.size(); ++i)
    if (base[i] > -kLogitsDepth) divergence += std::exp(base[i]) * (base[i] - (logits[i] - log_sum));
  all_.push_back(divergence);
  same_top_ += std::max_element(base.begin(), base.end()) - base.begin() == top - first;
}

double Divergence::mean() const {
  double sum = 0;
  for (double d : all_) sum += d;
  return sum / static_cast<double>(all_.size());
}

double Divergence::error() const {
  if (all_.size() < 2) return 0;
  const double middle = mean();
  double squares = 0;
  for (double d : all_) squares += (d - middle) * (d - middle);
  const auto n = static_cast<double>(all_.size());
  return std::sqrt(squares / (n - 1) / n);
}

double Divergence::percentile(double share) const {
  std::vector<double> sorted = all_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

double Divergence::same_top() const { return static_cast<double>(same_top_) / static_cast<double>(all_.size()); }

}  // namespace smelt
