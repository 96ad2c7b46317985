// LogitScan: one pass over a row of logits that answers what a sampler asks first. To make a candidate of each of 150
// thousand tokens and to look for the best 40 among them takes longer than some models do.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace smelt {

class LogitScan {
 public:
  static constexpr size_t kBlock = 256;

  // What follows is about these logits. They may be -inf where only the greatest are asked for.
  void look_at(std::span<const float> logits);

  bool are_finite() const { return are_finite_; }
  // The first of the greatest. REQUIRES: there are logits, and none is NaN.
  size_t greatest() const;
  // A number that at least `count` logits reach, as many blocks do; -inf where there are not so many blocks.
  float reached_by(size_t count) const;
  // Calls f(index, logit) for all that reach `least`, in order.
  template <class F>
  void for_each_reaching(float least, const F& f) const {
    for (size_t b = 0; b < greatest_.size(); ++b) {
      if (!(greatest_[b] >= least)) continue;
      const size_t end = std::min(logits_.size(), (b + 1) * kBlock);
      for (size_t i = b * kBlock; i < end; ++i)
        if (logits_[i] >= least) f(i, logits_[i]);
    }
  }

 private:
  std::span<const float> logits_;
  std::vector<float> greatest_;  // of each block
  bool are_finite_ = true;
};

}  // namespace smelt
