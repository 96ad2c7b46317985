// Whether logits are the same, and how far they are from others.
#pragma once

#include <cmath>
#include <cstring>
#include <span>

namespace smelt::test {

inline bool same_bits(std::span<const float> x, std::span<const float> y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size_bytes()) == 0;
}

// |got - wanted| / |wanted|; infinite where numbers are missing, and where some are not finite.
template <class Got, class Wanted>
double relative_error(const Got& got, const Wanted& wanted) {
  if (got.size() != wanted.size()) return INFINITY;
  double error = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double want = wanted[i], difference = got[i] - want;
    error += difference * difference;
    size += want * want;
  }
  const double relative = std::sqrt(error / size);
  return std::isfinite(relative) ? relative : INFINITY;
}

}  // namespace smelt::test
