// How far the probabilities of one model are from those of another, position by position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace smelt {

class Divergence {
 public:
  // Logarithms of the base's probabilities, and the other model's logits. Tokens that the base hardly ever takes (one
  // in e^16) count for nothing: files do not tell them apart.
  void add(std::span<const double> base, std::span<const float> logits);

  int64_t positions() const { return static_cast<int64_t>(all_.size()); }
  double mean() const;
  double error() const;                   // standard error of the mean
  double percentile(double share) const;  // 0.5: the median
  double same_top() const;                // share of positions where both have the same likeliest token

 private:
  std::vector<double> all_;  // Kullback-Leibler divergences, in nats
  int64_t same_top_ = 0;
};

}  // namespace smelt
