#include "engine/rejection.h"

#include <algorithm>
#include <unordered_map>

namespace smelt {

int32_t keep_or_replace(int32_t draft, std::span<const TokenProbability> drawn_from,
                        std::span<const TokenProbability> wanted, const std::function<double()>& uniform) {
  std::unordered_map<int32_t, double> q;
  for (const TokenProbability& t : drawn_from) q[t.token] = t.probability;
  if (drawn_from.empty()) q[draft] = 1;
  const auto p_of_draft = std::find_if(wanted.begin(), wanted.end(), [&](const auto& t) { return t.token == draft; });
  if (p_of_draft != wanted.end() && uniform() * q[draft] < p_of_draft->probability) return draft;

  const auto excess = [&](const TokenProbability& t) {
    const auto drafted = q.find(t.token);
    return drafted == q.end() ? t.probability : std::max(0.0, t.probability - drafted->second);
  };
  double sum = 0;
  for (const TokenProbability& t : wanted) sum += excess(t);
  double left = uniform() * sum;
  int32_t chosen = wanted.front().token;  // where rounding leaves nothing
  for (const TokenProbability& t : wanted) {
    const double share = excess(t);
    if (share <= 0) continue;
    chosen = t.token;
    if (left < share) break;
    left -= share;
  }
  return chosen;
}

}  // namespace smelt
