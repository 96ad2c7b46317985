// A second, independent reading of the block formats: one element at a time, in plain C++, straight
// from the tables of the format. Shares nothing with model/dequant.cpp; tests hold the two
// together.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "gguf/types.h"
#include "model/codebook.h"

namespace smelt::test {

inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h >> 15) << 31, exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = float(fraction) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

class ReferenceBlock {
 public:
  explicit ReferenceBlock(const uint8_t* block) : b_(block) {}

  float value(GgufType type, int i) const {
    const int g = i / 32, l = i % 32, h = i / 128, c = i % 128 / 32;
    switch (type) {
      case GgufType::F32: return std::bit_cast<float>(u32(0));
      case GgufType::F16: return f16(0);
      case GgufType::BF16: return std::bit_cast<float>(uint32_t(u16(0)) << 16);
      case GgufType::Q4_0: return f16(0) * float(nibble(2, i) - 8);
      case GgufType::Q4_1: return f16(0) * float(nibble(4, i)) + f16(2);
      case GgufType::Q5_0: return f16(0) * float(nibble(6, i) + 16 * int(u32(2) >> i & 1) - 16);
      case GgufType::Q5_1: return f16(0) * float(nibble(8, i) + 16 * int(u32(4) >> i & 1)) + f16(2);
      case GgufType::Q8_0: return f16(0) * float(int8_t(b_[2 + i]));
      case GgufType::Q2_K: {
        const int s = b_[i / 16], q = b_[16 + 32 * h + l] >> 2 * c & 3;
        const float scale = f16(80) * float(s & 15), minimum = f16(82) * float(s >> 4);
        return scale * float(q) - minimum;
      }
      case GgufType::Q3_K: {
        const int k = i / 16;
        const int low = b_[96 + k % 8] >> 4 * (k / 8) & 15, high = b_[96 + 8 + k % 4] >> 2 * (k / 4) & 3;
        int q = b_[32 + 32 * h + l] >> 2 * c & 3;
        if (!(b_[l] >> (4 * h + c) & 1)) q -= 4;
        return f16(108) * float(low + 16 * high - 32) * float(q);
      }
      case GgufType::Q4_K:
      case GgufType::Q5_K: {
        const bool five = type == GgufType::Q5_K;
        const uint8_t *s = b_ + 4, *qs = b_ + (five ? 48 : 16);
        int q = qs[32 * (g / 2) + l] >> 4 * (g % 2) & 15;
        if (five) q += 16 * (b_[16 + l] >> g & 1);
        const int sc = g < 4 ? s[g] & 63 : (s[g + 4] & 15) + 16 * (s[g - 4] >> 6);
        const int mn = g < 4 ? s[g + 4] & 63 : (s[g + 4] >> 4) + 16 * (s[g] >> 6);
        const float scale = f16(0) * float(sc), minimum = f16(2) * float(mn);
        return scale * float(q) - minimum;
      }
      case GgufType::Q6_K: {
        const int low = b_[64 * h + 32 * (c % 2) + l] >> 4 * (c / 2) & 15, high = b_[128 + 32 * h + l] >> 2 * c & 3;
        return f16(208) * float(int8_t(b_[192 + i / 16])) * float(low + 16 * high - 32);
      }
      case GgufType::IQ4_NL: return f16(0) * iq4(nibble(2, i));
      case GgufType::IQ4_XS: {
        const int ls = (b_[4 + g / 2] >> 4 * (g % 2) & 15) + 16 * (u16(2) >> 2 * g & 3);
        return f16(0) * float(ls - 32) * iq4(nibble(8 + 16 * g, l));
      }
      case GgufType::MXFP4: {
        static constexpr float kDoubled[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
        return power_of_two(b_[0] - 128) * kDoubled[nibble(1, i)];
      }
      case GgufType::NVFP4: {
        static constexpr float kDoubled[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
        const int s = i / 16, e = i % 16;
        const int q = e < 8 ? b_[4 + 8 * s + e] & 15 : b_[4 + 8 * s + e - 8] >> 4;
        return small_float(b_[s]) / 2 * kDoubled[q];
      }
      case GgufType::TQ1_0: {
        const int n = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
        const int at = i < 160 ? l : i < 240 ? 32 + (i - 160) % 16 : 48 + i % 4;
        static constexpr int kPower[] = {1, 3, 9, 27, 81};
        return f16(52) * float((b_[at] * kPower[n] % 256 * 3 >> 8) - 1);
      }
      case GgufType::TQ2_0: return f16(64) * float((b_[32 * h + l] >> 2 * c & 3) - 1);
      case GgufType::IQ2_XXS: {
        const uint32_t index = u32(2 + 8 * g) >> 8 * (l / 8) & 255, word = u32(6 + 8 * g);
        return f16(0) * (0.5f + float(word >> 28)) * 0.25f * iq2(Codebook::IQ2_XXS, index, l % 8) *
               sign(even(word >> 7 * (l / 8) & 127), l % 8);
      }
      case GgufType::IQ2_XS: {
        const int word = u16(2 + i / 8 * 2), s = b_[66 + g] >> 4 * (l / 16) & 15;
        return f16(0) * (0.5f + float(s)) * 0.25f * iq2(Codebook::IQ2_XS, word & 511, i % 8) *
               sign(even(word >> 9), i % 8);
      }
      case GgufType::IQ2_S: {
        const int index = b_[2 + i / 8] + 256 * (b_[66 + g] >> 2 * (l / 8) & 3), s = b_[74 + g] >> 4 * (l / 16) & 15;
        return f16(0) * (0.5f + float(s)) * 0.25f * iq2(Codebook::IQ2_S, index, i % 8) * sign(b_[34 + i / 8], i % 8);
      }
      case GgufType::IQ3_XXS: {
        static constexpr float kLevels[] = {4, 12, 20, 28, 36, 44, 52, 62};
        const uint32_t word = u32(66 + 4 * g);
        return f16(0) * (0.5f + float(word >> 28)) * 0.5f * kLevels[digit(Codebook::IQ3_XXS, b_[2 + i / 4], i % 4)] *
               sign(even(word >> 7 * (l / 8) & 127), i % 8);
      }
      case GgufType::IQ3_S: {
        const int index = b_[2 + i / 4] + 256 * (b_[66 + g] >> (l / 4) & 1), s = b_[106 + g / 2] >> 4 * (g % 2) & 15;
        return f16(0) * float(1 + 2 * s) * float(1 + 2 * digit(Codebook::IQ3_S, index, i % 4)) *
               sign(b_[74 + i / 8], i % 8);
      }
      case GgufType::IQ1_S: {
        const int word = u16(34 + 2 * g), index = b_[2 + i / 8] + 256 * (word >> 3 * (l / 8) & 7);
        return f16(0) * float(2 * (word >> 12 & 7) + 1) *
               (float(digit(Codebook::IQ1, index, i % 8) - 1) + (word >> 15 ? -0.125f : 0.125f));
      }
      case GgufType::IQ1_M: {
        int d = 0;
        for (int k = 0; k < 4; ++k) d |= u16(48 + 2 * k) >> 12 << 4 * k;
        const int s = u16(48 + 2 * (i / 64)) >> 3 * (i / 16 % 4) & 7, top = b_[32 + i / 16] >> 4 * (i / 8 % 2) & 15;
        return half_to_float(uint16_t(d)) * float(2 * s + 1) *
               (float(digit(Codebook::IQ1, b_[i / 8] + 256 * (top & 7), i % 8) - 1) + (top & 8 ? -0.125f : 0.125f));
      }
      default: return 0;
    }
  }

 private:
  uint16_t u16(int at) const { return uint16_t(b_[at] | b_[at + 1] << 8); }
  uint32_t u32(int at) const { return u16(at) | uint32_t(u16(at + 2)) << 16; }
  float f16(int at) const { return half_to_float(u16(at)); }
  // Element i of 32 whose 16 bytes start at `at`.
  int nibble(int at, int i) const { return i < 16 ? b_[at + i] & 15 : b_[at + i - 16] >> 4; }
  static float iq4(int q) {
    static constexpr float kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return kValues[q];
  }
  // The seven stored bits and an eighth that makes their number even.
  static int even(int seven) { return seven + 128 * (std::popcount(unsigned(seven)) % 2); }
  static float sign(int signs, int i) { return signs >> i & 1 ? -1.f : 1.f; }
  // Digits of codebooks: four in low nibbles, four more in high ones.
  static int digit(Codebook book, size_t index, int i) {
    return int(codebook_words(book)[index] >> (8 * (i % 4) + 4 * (i / 4)) & 15);
  }
  static float iq2(Codebook book, size_t index, int i) {
    static constexpr float kLevels[] = {8, 25, 43};
    return kLevels[digit(book, index, i)];
  }
  static float small_float(int e) {
    if (e == 127) return 0;
    const int exponent = e >> 3 & 15, fraction = e & 7;
    return exponent == 0 ? float(fraction) * 0x1p-9f : float(8 + fraction) / 8 * power_of_two(exponent - 7);
  }
  static float power_of_two(int n) {
    double x = 1;
    for (; n > 0; --n) x *= 2;
    for (; n < 0; ++n) x /= 2;
    return float(x);
  }

  const uint8_t* b_;
};

}  // namespace smelt::test
