#include "app/bench_sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace smelt {

Sample sample_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  Sample sample{.count = n,
                .min = values.front(),
                .max = values.back(),
                .p10 = values[(n - 1) / 10],
                .p90 = values[n - 1 - (n - 1) / 10]};
  sample.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
  sample.median = (values[(n - 1) / 2] + values[n / 2]) / 2;
  double squares = 0;
  for (double v : values) squares += (v - sample.mean) * (v - sample.mean);
  if (n > 1) sample.deviation = std::sqrt(squares / static_cast<double>(n - 1));
  return sample;
}

std::vector<double> paired_ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(b[i] / a[i]);
  return ratios;
}

}  // namespace smelt
