#include "server/histogram.h"

#include <algorithm>
#include <cstdio>

namespace smelt {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

Histogram Histogram::of_seconds() {
  return Histogram({0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                    0.5,    1,       2.5,    5,     10,     25,    50,   100,   250,  600});
}

void Histogram::add(double value) {
  ++counts_[static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin())];
  ++count_;
  sum_ += value;
}

uint64_t Histogram::count_to(double bound) const {
  uint64_t count = 0;
  for (size_t i = 0; i < bounds_.size() && bounds_[i] <= bound; ++i) count += counts_[i];
  return count;
}

std::string Histogram::text(const std::string& name) const {
  std::string lines;
  for (double bound : bounds_)
    lines += name + "_bucket{le=\"" + number(bound) + "\"} " + std::to_string(count_to(bound)) + "\n";
  lines += name + "_bucket{le=\"+Inf\"} " + std::to_string(count_) + "\n";
  return lines + name + "_sum " + number(sum_) + "\n" + name + "_count " + std::to_string(count_) + "\n";
}

}  // namespace smelt
