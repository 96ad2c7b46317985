// Histogram: how often a figure lay between some bounds, as Prometheus has it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace smelt {

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  // Bounds from 0.1 ms to ten minutes, three in each power of ten.
  static Histogram of_seconds();

  void add(double value);
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  // At most `bound`, which is one of the bounds.
  uint64_t count_to(double bound) const;

  // The lines `name_bucket{le="..."} N` for all bounds, `name_sum` and `name_count`.
  std::string text(const std::string& name) const;

 private:
  std::vector<double> bounds_;    // ascending
  std::vector<uint64_t> counts_;  // one more: above all bounds
  uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace smelt
