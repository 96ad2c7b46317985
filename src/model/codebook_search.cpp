#include "model/codebook_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

#include "model/fit_scale.h"

namespace smelt {
namespace {

// Entries that are looked at for values that round to no entry: those nearest to the rounded ones.
constexpr size_t kNeighbours = 16;

// Relative distances from the scale that a group's greatest value asks for. Where levels are few, the best one may be
// far from it.
constexpr int kTries = 9;
constexpr double kLeast = 0.4, kMost = 1.15;

constexpr int kRefinements = 3;  // with the scale that is best for the entries that were found

constexpr double kTooSmall = 1e-20;  // its scale would be zero as a half

// The digits of an entry, in the order of its elements.
using Digits = std::array<uint8_t, 8>;
Digits digits_of(int64_t word) {
  Digits digits;
  for (size_t j = 0; j < digits.size(); ++j) digits[j] = static_cast<uint8_t>(word >> (8 * (j % 4) + 4 * (j / 4)) & 15);
  return digits;
}

// For every combination of digits, whether an entry or not: the entries nearest to it, with the given levels.
class Nearest {
 public:
  Nearest(const CodebookFormat& format, const std::vector<float>& levels) : digits_(format.digits), levels_(levels) {
    for (const int64_t word : codebook_words(format.book)) entries_.push_back(digits_of(word));
    size_t count = 1;
    for (size_t i = 0; i < digits_; ++i) count *= levels.size();
    lists_.reserve(count * kNeighbours);
    std::vector<std::pair<float, uint16_t>> all(entries_.size());
    for (size_t number = 0; number < count; ++number) {
      const Digits digits = digits_of_number(number);
      for (size_t e = 0; e < entries_.size(); ++e) all[e] = {distance(entries_[e], digits), static_cast<uint16_t>(e)};
      std::partial_sort(all.begin(), all.begin() + kNeighbours, all.end());
      for (size_t i = 0; i < kNeighbours; ++i) lists_.push_back(all[i].second);
    }
  }

  const Digits& entry(uint32_t index) const { return entries_[index]; }
  // The one with the least error of x = scale * level, weighted. x, weight: values of one entry.
  uint32_t find(const float* x, const float* weight, float inverse_scale) const {
    size_t number = 0;
    for (size_t i = digits_; i-- > 0;) number = number * levels_.size() + nearest_digit(x[i] * inverse_scale);
    const uint16_t* list = &lists_[number * kNeighbours];
    uint32_t best = list[0];
    float least = INFINITY;
    for (size_t n = 0; n < kNeighbours; ++n) {
      const Digits& digits = entries_[list[n]];
      float error = 0;
      for (size_t i = 0; i < digits_; ++i) {
        const float rest = x[i] * inverse_scale - levels_[digits[i]];
        error += weight[i] * rest * rest;
      }
      if (error < least) least = error, best = list[n];
    }
    return best;
  }

 private:
  Digits digits_of_number(size_t number) const {
    Digits digits{};
    for (size_t i = 0; i < digits_; ++i, number /= levels_.size())
      digits[i] = static_cast<uint8_t>(number % levels_.size());
    return digits;
  }
  float distance(const Digits& a, const Digits& b) const {
    float sum = 0;
    for (size_t i = 0; i < digits_; ++i) {
      const float rest = levels_[a[i]] - levels_[b[i]];
      sum += rest * rest;
    }
    return sum;
  }
  size_t nearest_digit(float x) const {
    size_t digit = 0;
    while (digit + 1 < levels_.size() && 2 * x > levels_[digit] + levels_[digit + 1]) ++digit;
    return digit;
  }

  size_t digits_;
  std::vector<float> levels_;
  std::vector<Digits> entries_;
  std::vector<uint16_t> lists_;  // kNeighbours of each number, the nearest first
};

// Made once for each format; levels by variant.
const std::vector<Nearest>& nearest_of(const CodebookFormat& format) {
  static std::mutex mutex;
  static std::map<const CodebookFormat*, std::vector<Nearest>> all;
  const std::lock_guard lock(mutex);
  std::vector<Nearest>& list = all[&format];
  if (list.empty())
    for (const std::vector<float>& levels : format.levels) list.emplace_back(format, levels);
  return list;
}

// Sums over some elements of weight * x * level and of weight * level^2.
struct Sums {
  double xl = 0, ll = 0;
  void operator+=(const Sums& other) { xl += other.xl, ll += other.ll; }
  // Of weight * (x - scale * level)^2, but for what x alone gives.
  double error(double scale) const { return scale * (scale * ll - 2 * xl); }
};

class BlockSearch {
 public:
  BlockSearch(const CodebookFormat& format, std::span<const float> x, std::span<const float> weight)
      : format_(format), nearest_(nearest_of(format)), x_(x.begin(), x.end()), weight_(weight) {
    block_.scales.resize(x.size() / format.group);
    block_.entries.resize(x.size() / format.digits);
    if (format.signs != CodebookSigns::None)
      for (size_t i = 0; i < x.size(); i += 8) take_signs(i);
  }

  CodebookBlock run(float (*store_d)(float)) {
    std::vector<float> scales, importance;
    for (size_t g = 0; g < groups(); ++g) {
      scales.push_back(static_cast<float>(best_scale(g) / format_.unit));
      const auto w = weight_.subspan(g * format_.group, format_.group);
      importance.push_back(std::accumulate(w.begin(), w.end(), 0.f));
    }
    std::vector<int> steps;
    for (uint32_t s = 0; s < format_.scale_count; ++s) steps.push_back(static_cast<int>(2 * s + 1));
    std::vector<uint8_t> chosen(scales.size());
    block_.d = store_d(fit_to_levels(scales, importance, steps, chosen));
    if (block_.d == 0) return block_;
    Sums all;  // of levels times all of their scale but d
    for (size_t g = 0; g < groups(); ++g) {
      const Sums sums = settle(g, chosen[g]);
      const double step = step_of(block_.scales[g]);
      all += {sums.xl * step, sums.ll * step * step};
    }
    if (all.ll > 0 && all.xl > 0) block_.d = store_d(static_cast<float>(all.xl / all.ll));
    return block_;
  }

 private:
  size_t groups() const { return block_.scales.size(); }
  double step_of(uint32_t s) const { return format_.unit * (2 * s + 1); }

  // Values become magnitudes. Where signs of eight have to be even, the one that matters least changes its own, and a
  // value below zero is left, for which the lowest level is best.
  void take_signs(size_t first) {
    uint8_t signs = 0;
    size_t cheapest = first;
    float least = INFINITY;
    for (size_t i = first; i < first + 8; ++i) {
      const float cost = weight_[i] * x_[i] * x_[i];
      if (cost < least) least = cost, cheapest = i;
      if (x_[i] < 0) signs |= static_cast<uint8_t>(1 << (i - first)), x_[i] = -x_[i];
    }
    if (format_.signs == CodebookSigns::Parity && std::popcount(signs) % 2 != 0) {
      signs ^= static_cast<uint8_t>(1 << (cheapest - first));
      x_[cheapest] = -x_[cheapest];
    }
    block_.signs[first / 8] = signs;
  }

  // Chooses entries and variants of a group for a scale.
  Sums encode(size_t g, double scale) {
    const size_t begin = g * format_.group, end = begin + format_.group;
    const size_t span = std::min(format_.variant_elements, format_.group);
    Sums all;
    for (size_t at = begin; at < end; at += span) all += encode_span(at, at + span, scale);
    return all;
  }

  Sums encode_span(size_t begin, size_t end, double scale) {
    Sums best;
    double least = INFINITY;
    std::array<uint32_t, 64> entries{};
    for (size_t variant = 0; variant < nearest_.size(); ++variant) {
      Sums sums;
      for (size_t at = begin; at < end; at += format_.digits) {
        const uint32_t entry = nearest_[variant].find(&x_[at], &weight_[at], static_cast<float>(1 / scale));
        entries[(at - begin) / format_.digits] = entry;
        sums += sums_of(at, nearest_[variant].entry(entry), format_.levels[variant]);
      }
      if (sums.error(scale) >= least) continue;
      least = sums.error(scale), best = sums;
      std::copy_n(entries.begin(), (end - begin) / format_.digits, &block_.entries[begin / format_.digits]);
      for (size_t k = begin / 8; k < end / 8; ++k) block_.variants[k] = static_cast<uint8_t>(variant);
    }
    return best;
  }

  Sums sums_of(size_t at, const Digits& digits, const std::vector<float>& levels) const {
    Sums sums;
    for (size_t i = 0; i < format_.digits; ++i) {
      const double level = levels[digits[i]], weighted = weight_[at + i] * level;
      sums += {weighted * x_[at + i], weighted * level};
    }
    return sums;
  }

  // The scale of a group if it could be any number above zero; 0 where all values are.
  double best_scale(size_t g) {
    const auto x = std::span(x_).subspan(g * format_.group, format_.group);
    float greatest = 0;
    for (float v : x) greatest = std::max(greatest, std::fabs(v));
    if (greatest < kTooSmall) return 0;
    double gain = 0, best = 0;
    const auto attempt = [&](double scale) {
      const Sums sums = encode(g, scale);
      if (sums.xl <= 0 || sums.xl * sums.xl <= gain * sums.ll) return false;
      gain = sums.xl * sums.xl / sums.ll, best = sums.xl / sums.ll;
      return true;
    };
    const double usual = greatest / format_.levels.front().back();
    for (int i = 0; i < kTries; ++i) attempt(usual * (kLeast + (kMost - kLeast) * i / (kTries - 1)));
    for (int i = 0; i < kRefinements && best > 0 && attempt(best); ++i) continue;
    return best;
  }

  // Entries for a scale as it is stored: `s`, or one beside it.
  Sums settle(size_t g, uint32_t s) {
    uint32_t best = s;
    double least = INFINITY;
    for (uint32_t tried = s ? s - 1 : 0; tried <= std::min(s + 1, format_.scale_count - 1); ++tried) {
      const double scale = block_.d * step_of(tried), error = encode(g, scale).error(scale);
      if (error < least) least = error, best = tried;
    }
    block_.scales[g] = best;
    return encode(g, block_.d * step_of(best));
  }

  const CodebookFormat& format_;
  const std::vector<Nearest>& nearest_;
  std::vector<float> x_;
  std::span<const float> weight_;
  CodebookBlock block_;
};

}  // namespace

CodebookBlock search_codebook(const CodebookFormat& format, std::span<const float> x, std::span<const float> weight,
                              float (*store_d)(float)) {
  return BlockSearch(format, x, weight).run(store_d);
}

}  // namespace smelt
