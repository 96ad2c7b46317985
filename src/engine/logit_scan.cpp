#include "engine/logit_scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include "base/ensure.h"

namespace smelt {
namespace {

constexpr size_t kLanes = 16;  // side by side, so that the compiler makes vectors of them
constexpr uint32_t kExponent = 0x7f800000;

// The greatest of a block; `wrong` gets a bit for what is no finite number.
float scan_block(std::span<const float> x, uint32_t& wrong) {
  std::array<float, kLanes> most;
  std::array<uint32_t, kLanes> bad{};
  most.fill(-std::numeric_limits<float>::infinity());
  const auto take = [&](size_t lane, float v) {
    most[lane] = v > most[lane] ? v : most[lane];
    bad[lane] |= (std::bit_cast<uint32_t>(v) & kExponent) == kExponent ? 1U : 0U;
  };
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) take(lane, x[i + lane]);
  for (size_t lane = 0; i < x.size(); ++i, ++lane) take(lane, x[i]);
  for (uint32_t b : bad) wrong |= b;
  return *std::max_element(most.begin(), most.end());
}

}  // namespace

void LogitScan::look_at(std::span<const float> logits) {
  logits_ = logits;
  greatest_.clear();
  uint32_t wrong = 0;
  for (size_t at = 0; at < logits.size(); at += kBlock)
    greatest_.push_back(scan_block(logits.subspan(at, std::min(kBlock, logits.size() - at)), wrong));
  are_finite_ = wrong == 0;
}

size_t LogitScan::greatest() const {
  ENSURE(!greatest_.empty(), "the greatest of no logits");
  const auto block = std::max_element(greatest_.begin(), greatest_.end());
  const auto first = logits_.begin() + (block - greatest_.begin()) * static_cast<std::ptrdiff_t>(kBlock);
  return static_cast<size_t>(std::find(first, logits_.end(), *block) - logits_.begin());
}

float LogitScan::reached_by(size_t count) const {
  if (count == 0 || count > greatest_.size()) return -std::numeric_limits<float>::infinity();
  std::vector<float> sorted = greatest_;
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
  return *last;
}

}  // namespace smelt
