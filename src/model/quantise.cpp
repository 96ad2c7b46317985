#include "model/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/ensure.h"
#include "graph/scalar_math.h"
#include "model/block_writer.h"
#include "model/dequant.h"
#include "model/fit_scale.h"
#include "model/quantise_codebooks.h"

namespace smelt {
namespace {

using Values = std::span<const float>;
using Integers = std::span<uint8_t>;

constexpr std::array<int, 16> kIq4Levels = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

template <int lowest, int highest>
std::span<const int> integers() {
  static const auto list = [] {
    std::array<int, highest - lowest + 1> all;
    for (int i = lowest; i <= highest; ++i) all[static_cast<size_t>(i - lowest)] = i;
    return all;
  }();
  return list;
}

// Eight scales and eight minima of six bits.
void put_six_bit(std::span<const uint8_t> scales, std::span<const uint8_t> minima, uint8_t* to) {
  for (size_t i = 0; i < 4; ++i) {
    to[i] = static_cast<uint8_t>(scales[i] | (scales[i + 4] >> 4) << 6);
    to[i + 4] = static_cast<uint8_t>(minima[i] | (minima[i + 4] >> 4) << 6);
    to[i + 8] = static_cast<uint8_t>((scales[i + 4] & 15) | (minima[i + 4] & 15) << 4);
  }
}

// --- one scale for a block of 32, by its greatest value

float greatest_of(Values x) {
  float greatest = 0;
  for (float v : x)
    if (std::fabs(v) > std::fabs(greatest)) greatest = v;
  return greatest;
}

// 0 .. most for x = d * (q - zero), with a zero in the middle: the greatest value becomes 0.
std::vector<uint8_t> signed_by_greatest(Values x, int most, const BlockWriter& b) {
  const auto zero = static_cast<float>((most + 1) / 2);
  const float d = greatest_of(x) / -zero, inverse = d != 0 ? 1.0f / d : 0.0f;
  b.half("d", d);
  std::vector<uint8_t> q;
  for (float v : x) {
    const float scaled = v * inverse;
    q.push_back(static_cast<uint8_t>(std::min(most, static_cast<int>(scaled + (zero + 0.5f)))));
  }
  return q;
}

// 0 .. most for x = d * q + m, from the least value to the greatest.
std::vector<uint8_t> line_by_ends(Values x, int most, const BlockWriter& b) {
  const auto [least, greatest] = std::minmax_element(x.begin(), x.end());
  const float m = *least, d = (*greatest - m) / static_cast<float>(most), inverse = d != 0 ? 1.0f / d : 0.0f;
  b.half("d", d);
  b.half("m", m);
  std::vector<uint8_t> q;
  for (float v : x) {
    const float scaled = (v - m) * inverse;
    q.push_back(static_cast<uint8_t>(std::min(most, static_cast<int>(scaled + 0.5f))));
  }
  return q;
}

// --- scales that are searched for

// Values with how much each of them matters.
struct Weighted {
  Values x;
  Values importance;  // empty: nothing is known of it
};

// Without importances large values weigh more, as they did in the training. None is free: what no text has used yet, a
// model may use.
std::vector<float> weights_of(const Weighted& in) {
  const auto n = static_cast<double>(in.x.size());
  double squares = 0, importance = 0;
  for (float v : in.x) squares += double{v} * v;
  for (float v : in.importance) importance += v;
  std::vector<float> weights;
  if (importance > 0) {
    const auto least = static_cast<float>(importance / n * 1e-3);
    for (float v : in.importance) weights.push_back(v + least);
  } else {
    const auto mean = static_cast<float>(std::sqrt(squares / n));
    for (float v : in.x) weights.push_back(mean + std::fabs(v));
  }
  return weights;
}

// One scale for all: the levels' indices, with the scale as it is stored.
std::vector<uint8_t> fitted_block(const Weighted& in, std::span<const int> levels, const BlockWriter& b) {
  std::vector<uint8_t> q(in.x.size());
  const float d = b.half("d", fit_to_levels(in.x, weights_of(in), levels, q));
  for (size_t i = 0; i < q.size(); ++i) q[i] = nearest_level(d != 0 ? in.x[i] / d : 0, levels);
  return q;
}

// One scale and one offset of either sign.
std::vector<uint8_t> fitted_line(const Weighted& in, int most, const BlockWriter& b) {
  std::vector<uint8_t> q(in.x.size());
  const LineFit line = fit_line(in.x, weights_of(in), most, LineOffset::Any, q);
  const float d = b.half("d", line.scale), m = b.half("m", -line.minimum);
  for (size_t i = 0; i < q.size(); ++i)
    q[i] = static_cast<uint8_t>(std::clamp(std::lround(d != 0 ? (in.x[i] - m) / d : 0), 0L, long{most}));
  return q;
}

float sum_of(Values x) {
  float sum = 0;
  for (float v : x) sum += v;
  return sum;
}

// q of a block whose groups have a scale each, which is an integer of `scale_levels` times d.
struct ScaledGroups {
  std::vector<uint8_t> q = std::vector<uint8_t>(256);
  std::vector<uint8_t> scales;  // indices into scale_levels
};
ScaledGroups fit_groups(const Weighted& in, size_t groups, std::span<const int> levels,
                        std::span<const int> scale_levels, const BlockWriter& b) {
  const Values x = in.x;
  const std::vector<float> weights = weights_of(in);
  const size_t n = x.size() / groups;
  ScaledGroups out;
  out.scales.resize(groups);
  std::vector<float> scales, importance;
  for (size_t g = 0; g < groups; ++g) {
    const Values w = Values(weights).subspan(g * n, n);
    scales.push_back(fit_to_levels(x.subspan(g * n, n), w, levels, Integers(out.q).subspan(g * n, n)));
    importance.push_back(sum_of(w));
  }
  const float d = b.half("d", fit_to_levels(scales, importance, scale_levels, out.scales));
  for (size_t i = 0; i < x.size(); ++i) {
    const float scale = d * static_cast<float>(scale_levels[out.scales[i / n]]);
    out.q[i] = nearest_level(scale != 0 ? x[i] / scale : 0, levels);
  }
  return out;
}

// The same with minima, which like the scales are integers of 0 .. `steps`.
struct LineGroups : ScaledGroups {
  std::vector<uint8_t> minima;
};
LineGroups fit_lines(const Weighted& in, size_t groups, int most, std::span<const int> steps, const BlockWriter& b) {
  const Values x = in.x;
  const std::vector<float> weights = weights_of(in);
  const size_t n = x.size() / groups;
  LineGroups out;
  out.scales.resize(groups), out.minima.resize(groups);
  std::vector<float> scales, minima, importance;
  for (size_t g = 0; g < groups; ++g) {
    const Values w = Values(weights).subspan(g * n, n);
    const LineFit line =
        fit_line(x.subspan(g * n, n), w, most, LineOffset::AtMostZero, Integers(out.q).subspan(g * n, n));
    scales.push_back(line.scale), minima.push_back(line.minimum), importance.push_back(sum_of(w));
  }
  const float d = b.half("d", fit_to_levels(scales, importance, steps, out.scales)),
              m = b.half("dmin", fit_to_levels(minima, importance, steps, out.minima));
  for (size_t i = 0; i < x.size(); ++i) {
    const float scale = d * static_cast<float>(out.scales[i / n]), minimum = m * static_cast<float>(out.minima[i / n]);
    const float steps_up = scale != 0 ? (x[i] + minimum) / scale : 0;
    out.q[i] = static_cast<uint8_t>(std::clamp(std::lround(steps_up), 0L, long{most}));
  }
  return out;
}

// --- one function a format

namespace block {

std::vector<uint8_t> signed_block(const Weighted& in, int most, std::span<const int> levels, const BlockWriter& b) {
  return in.importance.empty() ? signed_by_greatest(in.x, most, b) : fitted_block(in, levels, b);
}
std::vector<uint8_t> line_block(const Weighted& in, int most, const BlockWriter& b) {
  return in.importance.empty() ? line_by_ends(in.x, most, b) : fitted_line(in, most, b);
}

void Q4_0(const Weighted& in, const BlockWriter& b) {
  put_fields(signed_block(in, 15, integers<-8, 7>(), b), 4, 0, 16, b["qs"]);
}
void Q4_1(const Weighted& in, const BlockWriter& b) { put_fields(line_block(in, 15, b), 4, 0, 16, b["qs"]); }

void put_five_bits(std::span<const uint8_t> q, const BlockWriter& b) {
  put_fields(q, 4, 0, 16, b["qs"]);
  put_bits(q, 4, b["qh"]);
}
void Q5_0(const Weighted& in, const BlockWriter& b) { put_five_bits(signed_block(in, 31, integers<-16, 15>(), b), b); }
void Q5_1(const Weighted& in, const BlockWriter& b) { put_five_bits(line_block(in, 31, b), b); }

void Q8_0(const Weighted& in, const BlockWriter& b) {
  const Values x = in.x;
  const float d = std::fabs(greatest_of(x)) / 127, inverse = d != 0 ? 1.0f / d : 0.0f;
  b.half("d", d);
  for (size_t i = 0; i < x.size(); ++i)
    b["qs"][i] = static_cast<uint8_t>(static_cast<int8_t>(std::round(x[i] * inverse)));
}

void Q2_K(const Weighted& in, const BlockWriter& b) {
  const LineGroups g = fit_lines(in, 16, 3, integers<0, 15>(), b);
  for (size_t i = 0; i < 16; ++i) b["scales"][i] = static_cast<uint8_t>(g.scales[i] | g.minima[i] << 4);
  put_fields(g.q, 2, 0, 32, b["qs"]);
}

void Q3_K(const Weighted& in, const BlockWriter& b) {
  const ScaledGroups g = fit_groups(in, 16, integers<-4, 3>(), integers<-32, 31>(), b);
  put_fields(g.scales, 4, 0, 8, b["scales"]);
  put_fields(g.scales, 2, 4, 4, b["scales"] + 8);
  put_fields(g.q, 2, 0, 32, b["qs"]);
  put_fields(g.q, 1, 2, 32, b["hmask"]);
}

void Q4_K(const Weighted& in, const BlockWriter& b) {
  const LineGroups g = fit_lines(in, 8, 15, integers<0, 63>(), b);
  put_six_bit(g.scales, g.minima, b["scales"]);
  put_fields(g.q, 4, 0, 32, b["qs"]);
}

void Q5_K(const Weighted& in, const BlockWriter& b) {
  const LineGroups g = fit_lines(in, 8, 31, integers<0, 63>(), b);
  put_six_bit(g.scales, g.minima, b["scales"]);
  put_fields(g.q, 4, 0, 32, b["qs"]);
  put_fields(g.q, 1, 4, 32, b["qh"]);
}

void Q6_K(const Weighted& in, const BlockWriter& b) {
  const ScaledGroups g = fit_groups(in, 16, integers<-32, 31>(), integers<-128, 127>(), b);
  put_fields(g.q, 4, 0, 64, b["ql"]);
  put_fields(g.q, 2, 4, 32, b["qh"]);
  for (size_t i = 0; i < 16; ++i) b["scales"][i] = static_cast<uint8_t>(g.scales[i] - 128);
}

void IQ4_NL(const Weighted& in, const BlockWriter& b) {
  put_fields(fitted_block(in, kIq4Levels, b), 4, 0, 16, b["qs"]);
}

void IQ4_XS(const Weighted& in, const BlockWriter& b) {
  const ScaledGroups g = fit_groups(in, 8, kIq4Levels, integers<-32, 31>(), b);
  for (size_t i = 0; i < 8; ++i) {
    b["scales_l"][i / 2] |= static_cast<uint8_t>((g.scales[i] & 15) << (4 * (i % 2)));
    b["scales_h"][i / 4] |= static_cast<uint8_t>((g.scales[i] >> 4) << (2 * (i % 4)));
  }
  put_fields(g.q, 4, 0, 16, b["qs"]);
}

// Codebooks: the search weighs as all others do.
#define CODEBOOK_BLOCK(name) \
  void name(const Weighted& in, const BlockWriter& b) { put_codebook_block(GgufType::name, in.x, weights_of(in), b); }
CODEBOOK_BLOCK(IQ1_S)
CODEBOOK_BLOCK(IQ1_M)
CODEBOOK_BLOCK(IQ2_XXS)
CODEBOOK_BLOCK(IQ2_XS)
CODEBOOK_BLOCK(IQ2_S)
CODEBOOK_BLOCK(IQ3_XXS)
CODEBOOK_BLOCK(IQ3_S)
#undef CODEBOOK_BLOCK

// -1, 0 or 1 times the greatest value, plus 1: for weights that are nothing else.
std::vector<uint8_t> ternary(Values x, const BlockWriter& b) {
  const float d = std::fabs(greatest_of(x)), inverse = d != 0 ? 1 / d : 0;
  b.half("d", d);
  std::vector<uint8_t> q;
  for (float v : x) q.push_back(static_cast<uint8_t>(std::lround(v * inverse) + 1));
  return q;
}

void TQ2_0(const Weighted& in, const BlockWriter& b) { put_fields(ternary(in.x, b), 2, 0, 32, b["qs"]); }

// Elements i, n + i, 2 n + i ... as digits of base 3, the first one highest, of a fraction in 256ths that is rounded
// up.
void put_trits(std::span<const uint8_t> q, size_t n, uint8_t* to) {
  constexpr int kDigits = 5, kAll = 243;
  for (size_t i = 0; i < n; ++i) {
    int number = 0;
    for (size_t digit = 0; digit < kDigits; ++digit) {
      const size_t at = digit * n + i;
      number = number * 3 + (at < q.size() ? q[at] : 0);
    }
    to[i] = static_cast<uint8_t>((number * 256 + kAll - 1) / kAll);
  }
}

void TQ1_0(const Weighted& in, const BlockWriter& b) {
  const std::vector<uint8_t> q = ternary(in.x, b);
  put_trits(std::span(q).first(160), 32, b["qs"]);
  put_trits(std::span(q).subspan(160, 80), 16, b["qs"] + 32);
  put_trits(std::span(q).last(16), 4, b["qh"]);
}

// --- floats of four bits, whose scales are floats, too

constexpr std::array<int, 8> kFp4Doubled = {0, 1, 2, 3, 4, 6, 8, 12};

// Of x / scale, with the sign above.
uint8_t fp4_of(float x, float scale) {
  const uint8_t level = scale != 0 ? nearest_level(2 * std::fabs(x) / scale, kFp4Doubled) : 0;
  return x < 0 && level != 0 ? level | 8 : level;
}

// The scale of 16 values: four bits of exponent, three of fraction.
float small_float(uint8_t bits) {
  const int exponent = bits >> 3, fraction = bits & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                       : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
}

// Around the one that makes the greatest value the highest level, that with the least error.
uint8_t best_small_float(Values x, Values weight) {
  constexpr uint8_t kMost = 126;  // 127 is no number
  constexpr int kAround = 4;
  const float wanted = std::fabs(greatest_of(x)) / 6;
  int usual = 0;
  while (usual < kMost && small_float(static_cast<uint8_t>(usual)) < wanted) ++usual;
  uint8_t best = 0;
  float least = INFINITY;
  for (int e = std::max(0, usual - kAround); e <= std::min<int>(kMost, usual + kAround); ++e) {
    const float scale = small_float(static_cast<uint8_t>(e));
    float error = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const uint8_t q = fp4_of(x[i], scale);
      const float rest = std::fabs(x[i]) - scale * static_cast<float>(kFp4Doubled[q & 7]) / 2;
      error += weight[i] * rest * rest;
    }
    if (error < least) least = error, best = static_cast<uint8_t>(e);
  }
  return best;
}

void NVFP4(const Weighted& in, const BlockWriter& b) {
  constexpr size_t kGroup = 16;
  const std::vector<float> weights = weights_of(in);
  for (size_t g = 0; g < in.x.size() / kGroup; ++g) {
    const Values x = in.x.subspan(g * kGroup, kGroup);
    const uint8_t e = best_small_float(x, Values(weights).subspan(g * kGroup, kGroup));
    std::vector<uint8_t> q;
    for (float v : x) q.push_back(fp4_of(v, small_float(e)));
    b["e"][g] = e;
    put_fields(q, 4, 0, kGroup / 2, b["qs"] + g * kGroup / 2);
  }
}

// The greatest value lies between 4 and 8 of its power of two, of which 6 is the highest level.
void MXFP4(const Weighted& in, const BlockWriter& b) {
  const Values x = in.x;
  const float greatest = std::fabs(greatest_of(x));
  const int exponent = greatest > 0 ? std::clamp(std::ilogb(greatest) - 2, -127, 127) : -127;
  b["e"][0] = static_cast<uint8_t>(exponent + 127);
  std::vector<uint8_t> q;
  for (float v : x) q.push_back(fp4_of(std::ldexp(v, -exponent), 1));
  put_fields(q, 4, 0, 16, b["qs"]);
}

}  // namespace block

using Encoder = void (*)(const Weighted&, const BlockWriter&);
Encoder encoder_of(GgufType type) {
  switch (type) {
#define ENCODER(name) \
  case GgufType::name: return block::name;
    ENCODER(Q4_0)
    ENCODER(Q4_1)
    ENCODER(Q5_0)
    ENCODER(Q5_1)
    ENCODER(Q8_0)
    ENCODER(Q2_K)
    ENCODER(Q3_K)
    ENCODER(Q4_K)
    ENCODER(Q5_K)
    ENCODER(Q6_K)
    ENCODER(IQ4_NL)
    ENCODER(IQ4_XS)
    ENCODER(MXFP4)
    ENCODER(NVFP4)
    ENCODER(TQ1_0)
    ENCODER(TQ2_0)
    ENCODER(IQ1_S)
    ENCODER(IQ1_M)
    ENCODER(IQ2_XXS)
    ENCODER(IQ2_XS)
    ENCODER(IQ2_S)
    ENCODER(IQ3_XXS)
    ENCODER(IQ3_S)
#undef ENCODER
    default: return nullptr;
  }
}

DType dtype_of(GgufType type) { return block_fields(type)[0].dtype; }

}  // namespace

bool can_quantise_to(GgufType type) { return encoder_of(type) || (info_of(type).supported && is_plain(type)); }

bool can_quantise_from(GgufType type) { return type == GgufType::Q8_0 || (info_of(type).supported && is_plain(type)); }

void read_values(GgufType type, std::span<const std::byte> from, std::span<float> to) {
  ENSURE(can_quantise_from(type), "no values of this type are read");
  if (type == GgufType::F32) return std::memcpy(to.data(), from.data(), from.size()), void();
  const size_t elements = info_of(type).elements, bytes = info_of(type).bytes;
  for (size_t i = 0; i < to.size(); ++i) {
    const std::byte* block = from.data() + i / elements * bytes;
    uint16_t bits;
    std::memcpy(&bits, block, sizeof bits);
    const auto number = static_cast<float>(from_bits(bits, type == GgufType::BF16 ? DType::BF16 : DType::F16).f);
    to[i] = is_plain(type) ? number : number * static_cast<float>(static_cast<int8_t>(block[2 + i % elements]));
  }
}

void quantise(GgufType type, std::span<const float> x, std::span<std::byte> to, std::span<const float> importance) {
  ENSURE(can_quantise_to(type), "no blocks of this type are made");
  const size_t elements = info_of(type).elements, bytes = info_of(type).bytes;
  for (size_t i = 0; i < x.size() / elements; ++i) {
    std::byte* at = to.data() + i * bytes;
    if (const Encoder encode = encoder_of(type)) {
      const Values known = importance.empty() ? importance : importance.subspan(i * elements, elements);
      encode({x.subspan(i * elements, elements), known}, BlockWriter(type, at));
    } else {
      const uint64_t bits = to_bits({.f = x[i]}, dtype_of(type));
      std::memcpy(at, &bits, bytes);
    }
  }
}

}  // namespace smelt
