#include "engine/dry.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace smelt {
namespace {

// For each place of `text`: how many tokens from there on are those that it begins with (the "Z function").
std::vector<size_t> common_prefixes(const std::vector<int32_t>& text) {
  std::vector<size_t> z(text.size(), 0);
  size_t left = 0, right = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < text.size() && text[z[i]] == text[i + z[i]]) ++z[i];
    if (i + z[i] > right) {
      left = i;
      right = i + z[i];
    }
  }
  return z;
}

}  // namespace

std::vector<DryPenalty> dry_penalties(const DryOptions& options, std::span<const int32_t> history) {
  const auto is_break = [&](int32_t token) {
    return std::binary_search(options.breaks.begin(), options.breaks.end(), token);
  };
  const size_t looked_at =
      options.last_n < 0 ? history.size() : std::min(history.size(), static_cast<size_t>(options.last_n));
  // Last token first, so that what ends alike begins alike.
  const std::vector<int32_t> reversed(history.rbegin(), history.rbegin() + static_cast<std::ptrdiff_t>(looked_at));
  const auto since_break =
      static_cast<size_t>(std::find_if(reversed.begin(), reversed.end(), is_break) - reversed.begin());
  const auto allowed = static_cast<size_t>(std::max(options.allowed_length, 1));
  if (since_break < allowed) return {};

  const std::vector<size_t> common = common_prefixes(reversed);
  std::map<int32_t, size_t> longest;  // repetition that a token would go on with
  for (size_t i = 1; i < reversed.size(); ++i) {
    const size_t length = std::min(common[i], since_break);
    if (length >= allowed) longest[reversed[i - 1]] = std::max(longest[reversed[i - 1]], length);
  }
  std::vector<DryPenalty> penalties;
  for (const auto& [token, length] : longest) {
    if (is_break(token)) continue;
    const double penalty = options.multiplier * std::pow(double(options.base), double(length - allowed));
    penalties.push_back({token, static_cast<float>(std::min(penalty, 1e30))});
  }
  return penalties;
}

}  // namespace smelt
