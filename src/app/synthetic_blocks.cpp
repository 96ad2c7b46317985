// A block is random bytes, but for the fields that hold a scale or a minimum: these are set so that values come out at
// the wanted size. Which fields these are follows from the table of gguf/quants.def.
#include "app/synthetic_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/ensure.h"
#include "model/dequant.h"

namespace smelt {
namespace {

// splitmix64: eight good bytes in a few instructions.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // In [-1, 1).
  double symmetric() { return static_cast<double>(static_cast<int64_t>(next())) * 0x1p-63; }

 private:
  uint64_t state_;
};

uint16_t half_bits(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (size < 0x1p-14) return sign | static_cast<uint16_t>(std::lround(size * 0x1p24));
  int exponent = 0;
  const double fraction = 2 * std::frexp(size, &exponent) - 1;  // size = (1 + fraction) * 2^(exponent - 1)
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + std::lround(fraction * 1024));
}

// What random bits in a block's other fields give: the standard deviation of its values where the scale d is 1, and the
// minimum (as a multiple of d) that puts their mean at 0. MXFP4 has a power of two for d, NVFP4 a byte of eight steps
// to each, IQ1_M its d in pieces.
struct BlockValues {
  double deviation;
  double minimum = 0;
};

BlockValues values_of(GgufType type) {
  switch (type) {
    case GgufType::Q4_0: return {4.64};
    case GgufType::Q4_1: return {4.61, -7.5};
    case GgufType::Q5_0: return {9.25};
    case GgufType::Q5_1: return {9.23, -15.5};
    case GgufType::Q8_0: return {73.9};
    case GgufType::Q2_K: return {13.9, 1.5};
    case GgufType::Q3_K: return {43.3};
    case GgufType::Q4_K: return {258, 7.5};
    case GgufType::Q5_K: return {527, 15.5};
    case GgufType::Q6_K: return {1366};
    case GgufType::IQ4_NL: return {67.4};
    case GgufType::IQ4_XS: return {1246};
    case GgufType::MXFP4: return {5.85};
    case GgufType::NVFP4: return {2.93};
    case GgufType::TQ1_0: return {0.817};
    case GgufType::TQ2_0: return {1.22};
    case GgufType::IQ1_S: return {7.2};
    case GgufType::IQ1_M: return {2.34};
    case GgufType::IQ2_XXS: return {53.4};
    case GgufType::IQ2_XS: return {55.9};
    case GgufType::IQ2_S: return {56.3};
    case GgufType::IQ3_XXS: return {142.6};
    case GgufType::IQ3_S: return {140.2};
    default: ENSURE(false, "a plain type has no scales");
  }
}

// The bytes of the scale fields of one block.
struct Patch {
  int offset;
  int bytes;
  uint16_t value;
};

uint16_t power_of_two_bits(double d) { return static_cast<uint16_t>(std::lround(std::log2(d)) + 128); }

// Four bits of exponent, with a bias of 7, and three of fraction.
uint16_t small_float_bits(double d) {
  const double steps = d < 0x1p-6 ? d * 512 : (std::log2(d) + 7) * 8;
  return static_cast<uint16_t>(std::clamp(std::lround(steps), 1L, 126L));
}

// Of four words of 16 bits: four bits of d above four scales of 3 (2 * 1 + 1).
uint16_t piece_of_scale(double d, int k) {
  return static_cast<uint16_t>((half_bits(d) >> (4 * k) & 15) << 12 | 0b001'001'001'001);
}

// Some sets of scales, of which each block takes one at random: 0.8 to 1.25 times the mean, of either sign where the
// format has no minimum, since its values are not quite symmetric.
std::vector<std::vector<Patch>> scale_choices(GgufType type, double deviation) {
  const BlockValues values = values_of(type);
  std::vector<std::vector<Patch>> choices(16);
  for (size_t i = 0; i < choices.size(); ++i) {
    const double d = deviation / values.deviation * std::pow(1.25, static_cast<double>(i % 8) / 3.5 - 1);
    const bool negative = i >= 8 && values.minimum == 0;
    for (const BlockField& field : block_fields(type)) {
      if (field.name == "d") choices[i].push_back({field.offset, 2, half_bits(negative ? -d : d)});
      if (field.name == "m" || field.name == "dmin")
        choices[i].push_back({field.offset, 2, half_bits(d * values.minimum)});
      if (field.name == "e")
        for (int k = 0; k < field.count; ++k)
          choices[i].push_back({field.offset + k, 1, field.count == 1 ? power_of_two_bits(d) : small_float_bits(d)});
      if (field.name == "scales" && type == GgufType::IQ1_M)
        for (int k = 0; k < 4; ++k)
          choices[i].push_back({field.offset + 2 * k, 2, piece_of_scale(negative ? -d : d, k)});
    }
  }
  return choices;
}

void fill_with_blocks(GgufType type, double deviation, Random& random, std::span<std::byte> to) {
  for (size_t at = 0; at < to.size(); at += 8) {
    const uint64_t bits = random.next();
    std::memcpy(to.data() + at, &bits, std::min<size_t>(8, to.size() - at));
  }
  const auto choices = scale_choices(type, deviation);
  for (size_t at = 0; at < to.size(); at += info_of(type).bytes)
    for (const Patch& patch : choices[random.next() % choices.size()])
      std::memcpy(to.data() + at + patch.offset, &patch.value, static_cast<size_t>(patch.bytes));
}

template <class T, class Convert>
void fill_with_numbers(std::span<std::byte> to, const Convert& convert) {
  for (size_t at = 0; at < to.size(); at += sizeof(T)) {
    const T value = convert();
    std::memcpy(to.data() + at, &value, sizeof(T));
  }
}

}  // namespace

void fill_with_random_blocks(GgufType type, double mean, double deviation, uint64_t seed, std::span<std::byte> to) {
  ENSURE(to.size() % info_of(type).bytes == 0, "part of a block");
  Random random(seed);
  const auto number = [&] { return mean + deviation * std::sqrt(3.0) * random.symmetric(); };
  switch (type) {
    case GgufType::F32: return fill_with_numbers<float>(to, [&] { return static_cast<float>(number()); });
    case GgufType::F16: return fill_with_numbers<uint16_t>(to, [&] { return half_bits(number()); });
    case GgufType::BF16:
      return fill_with_numbers<uint16_t>(
          to, [&] { return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(number())) >> 16); });
    default: fill_with_blocks(type, deviation, random, to);
  }
}

}  // namespace smelt
