#include "model/token_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

namespace smelt {

int32_t level_of(float logit) {
  const double steps = std::clamp<double>(logit, -kMostLogit, kMostLogit) * (int64_t{1} << kLevelBits);
  return static_cast<int32_t>(std::floor(steps));
}

int64_t scale_of(double temperature) {
  const double scale = M_LOG2E / temperature * (int64_t{1} << kScaleBits);
  return std::clamp(std::llround(std::min(scale, static_cast<double>(kMostScale))), 0LL,
                    static_cast<long long>(kMostScale));
}

int64_t weight_of(int64_t distance, int64_t scale) {
  constexpr int kPoint = 20;  // bits behind the point of the exponent
  const int64_t exponent = (distance * scale) >> (kLevelBits + kScaleBits - kPoint);
  const int64_t whole = exponent >> kPoint, rest = exponent & ((int64_t{1} << kPoint) - 1);
  int64_t power = *std::rbegin(kExp2);
  for (auto c = std::rbegin(kExp2) + 1; c != std::rend(kExp2); ++c) power = ((power * rest) >> kPoint) + *c;
  return (power << (kWeightBits - 30)) >> std::min<int64_t>(whole, 62);
}

int64_t distance_of(double p) {
  if (p <= 0) return kMostDistance;
  const double distance = -std::log(std::min(p, 1.0)) * (int64_t{1} << kLevelBits);
  return std::min(static_cast<int64_t>(std::min(distance, static_cast<double>(kMostDistance))), kMostDistance);
}

int64_t share_of(double p) {
  return static_cast<int64_t>(std::ceil(std::clamp(p, 0.0, 1.0) * (int64_t{1} << kShareBits)));
}

int64_t part_to_reach(int64_t weights, int64_t share) { return (weights >> kShareBits) * share; }

// weights * random / 2^26 in two pieces, so that no product is too long.
int64_t part_to_pass(int64_t weights, int64_t random) {
  constexpr int kHalf = kRandomBits - 1;
  const int64_t high = (weights >> kHalf) * random, low = (weights & ((int64_t{1} << kHalf) - 1)) * random;
  return (high >> 1) + ((((high & 1) << kHalf) + (low >> 1)) >> kHalf);
}

RandomWords threefry(uint64_t key, uint32_t counter, uint32_t index) {
  constexpr int kRotations[] = {13, 15, 26, 6, 17, 29, 16, 24};
  const auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[] = {low, high, 0x1BD11BDAu ^ low ^ high};
  uint32_t x = counter + keys[0], y = index + keys[1];
  for (uint32_t round = 0; round < 20; ++round) {
    x += y;
    y = std::rotl(y, kRotations[round % 8]) ^ x;
    if (round % 4 != 3) continue;
    const uint32_t injection = round / 4 + 1;
    x += keys[injection % 3];
    y += keys[(injection + 1) % 3] + injection;
  }
  return {x, y};
}

}  // namespace smelt
