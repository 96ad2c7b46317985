#include "model/fit_scale.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace smelt {
namespace {

// Relative distances from the scale that the greatest value asks for.
constexpr int kTries = 12;
constexpr double kStep = 0.015;

constexpr double kTooSmall = 1e-20;  // its scale would be zero as a half

}  // namespace

uint8_t nearest_level(float x, std::span<const int> levels) {
  const auto lowest = static_cast<float>(levels.front()), highest = static_cast<float>(levels.back());
  if (highest - lowest == static_cast<float>(levels.size() - 1))  // all integers between them
    return static_cast<uint8_t>(std::lround(std::clamp(x, lowest, highest) - lowest));
  size_t i = 0;
  while (i + 1 < levels.size() && std::fabs(x - float(levels[i + 1])) < std::fabs(x - float(levels[i]))) ++i;
  return static_cast<uint8_t>(i);
}

float fit_to_levels(std::span<const float> x, std::span<const float> weight, std::span<const int> levels,
                    std::span<uint8_t> q) {
  std::fill(q.begin(), q.end(), nearest_level(0, levels));
  float greatest = 0;
  for (float v : x)
    if (std::fabs(v) > std::fabs(greatest)) greatest = v;
  if (std::fabs(greatest) < kTooSmall) return 0;
  std::vector<uint8_t> tried(x.size());
  double best = 0, best_scale = 0;
  const auto attempt = [&](double scale) {
    double xl = 0, ll = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      tried[i] = nearest_level(static_cast<float>(x[i] / scale), levels);
      const double level = levels[tried[i]];
      xl += weight[i] * x[i] * level, ll += weight[i] * level * level;
    }
    if (ll <= 0 || xl * xl <= best * ll) return;  // what is left of the error falls by xl^2 / ll
    best = xl * xl / ll, best_scale = xl / ll;
    std::copy(tried.begin(), tried.end(), q.begin());
  };
  for (int end : {levels.front(), levels.back()})
    for (int i = -kTries; i <= kTries; ++i)
      if (end != 0) attempt(greatest / (end * (1 + kStep * i)));
  return static_cast<float>(best_scale);
}

LineFit fit_line(std::span<const float> x, std::span<const float> weight, int greatest, LineOffset offset_kind,
                 std::span<uint8_t> q) {
  std::fill(q.begin(), q.end(), uint8_t{0});
  const bool any = offset_kind == LineOffset::Any;
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  const double low = any ? *least : std::min(0.f, *least), high = any ? *most : std::max(0.f, *most);
  if (high - low < kTooSmall) return {0, static_cast<float>(any ? -low : 0)};
  double w1 = 0, wx = 0;
  for (size_t i = 0; i < x.size(); ++i) w1 += weight[i], wx += weight[i] * x[i];
  std::vector<uint8_t> tried(x.size());
  double best = INFINITY;
  LineFit line;
  const auto attempt = [&](double scale, double offset) {
    double wq = 0, wqq = 0, wxq = 0, error = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      tried[i] = static_cast<uint8_t>(std::clamp(std::lround((x[i] - offset) / scale), 0L, long{greatest}));
      wq += weight[i] * tried[i], wqq += double(weight[i]) * tried[i] * tried[i], wxq += weight[i] * x[i] * tried[i];
    }
    const double determinant = w1 * wqq - wq * wq;
    if (determinant <= 0 || wqq <= 0) return;
    double a = (w1 * wxq - wx * wq) / determinant, b = (wqq * wx - wq * wxq) / determinant;
    if (b > 0 && !any) a = wxq / wqq, b = 0;
    if (a < 0) return;
    for (size_t i = 0; i < x.size(); ++i) {
      const double rest = a * tried[i] + b - x[i];
      error += weight[i] * rest * rest;
    }
    if (error >= best) return;
    best = error, line = {static_cast<float>(a), static_cast<float>(-b)};
    std::copy(tried.begin(), tried.end(), q.begin());
  };
  for (int i = -kTries; i <= kTries; ++i) {
    const double scale = (high - low) / greatest / (1 + kStep * 2 * i);
    attempt(scale, low);
    attempt(scale, low * (1 + kStep * i));
  }
  return line;
}

}  // namespace smelt
