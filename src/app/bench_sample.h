// The statistics of a few measurements of one thing.
#pragma once

#include <cstddef>
#include <vector>

namespace smelt {

struct Sample {
  size_t count = 0;
  double mean = 0;
  double deviation = 0;  // of the sample (n - 1); 0 for a single value
  double median = 0;     // of an even number of values: halfway between the middle two
  double min = 0, max = 0;
  double p10 = 0, p90 = 0;  // a tenth of the values are below, a tenth above
};

Sample sample_of(std::vector<double> values);  // all zeros if empty

// values_b[i] / values_a[i], for runs that took turns. REQUIRES: no value of `a` is 0.
std::vector<double> paired_ratios(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace smelt
