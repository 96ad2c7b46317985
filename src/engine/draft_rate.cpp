#include "engine/draft_rate.h"

#include <algorithm>
#include <vector>

namespace smelt {
namespace {

constexpr size_t kWindow = 24;        // steps that count
constexpr size_t kEnough = 4;         // of them, before a number of drafts is judged
constexpr int64_t kTryAgain = 128;    // steps
constexpr double kRepaid = 50;        // times the cost of a try, before the next one
constexpr double kWorthwhile = 1.02;  // gains below that are noise

}  // namespace

int64_t DraftRate::most(int64_t texts) const { return std::clamp<int64_t>(rows_ / texts - 1, 0, most_); }

// The mean of the tokens over the median of the times, in which a step that was interrupted does not count.
double DraftRate::Kind::tokens_per_second() const {
  double tokens = 0;
  std::vector<double> times;
  for (const Step& step : steps) {
    tokens += step.tokens;
    times.push_back(step.seconds);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle > 0 ? tokens / static_cast<double>(steps.size()) / *middle : 0;
}

// Tokens a second of what is known; 0: nothing.
double DraftRate::Crowd::fastest() const {
  double most = 0;
  for (const auto& [drafts, kind] : kinds)
    if (!kind.steps.empty()) most = std::max(most, kind.tokens_per_second());
  return most;
}

// Plans have 1, 2, 4 ... rows: one of them is a text's next token.
DraftRate::Crowd& DraftRate::crowd(int64_t texts) {
  const auto [at, is_new] = crowds_.try_emplace(texts);
  if (!is_new) return at->second;
  for (int64_t drafts = 0; drafts < most(texts); drafts = 2 * drafts + 1) at->second.kinds[drafts];
  at->second.kinds[most(texts)];
  return at->second;
}

int64_t DraftRate::next(int64_t texts) {
  Crowd& crowd = this->crowd(texts);
  if (crowd.kinds.size() == 1) return 0;
  ++crowd.steps;
  for (const auto& [drafts, kind] : crowd.kinds)
    if (kind.steps.size() < kEnough ||
        (crowd.steps - kind.last > kTryAgain && crowd.seconds - kind.since >= kRepaid * kind.cost))
      return drafts;
  int64_t best = 0;
  double most = crowd.kinds.at(0).tokens_per_second() * kWorthwhile;
  for (const auto& [drafts, kind] : crowd.kinds)
    if (const double speed = kind.tokens_per_second(); drafts > 0 && speed > most) best = drafts, most = speed;
  return best;
}

void DraftRate::record(int64_t texts, int64_t asked, int64_t tokens, double seconds) {
  Crowd& crowd = this->crowd(texts);
  const auto at = crowd.kinds.find(asked);
  if (at == crowd.kinds.end()) return;
  Kind& kind = at->second;
  // What was only tried now and then is judged by its last few tries, that it may come back soon.
  const size_t window = crowd.steps - kind.last > kTryAgain ? kEnough : kWindow;
  kind.last = crowd.steps;
  const double fastest = crowd.fastest();
  kind.cost = fastest > 0 ? std::max(0.0, seconds - static_cast<double>(tokens) / fastest) : 0;
  kind.since = crowd.seconds += seconds;
  kind.steps.push_back({static_cast<double>(tokens), seconds});
  while (kind.steps.size() > window) kind.steps.pop_front();
}

}  // namespace smelt
