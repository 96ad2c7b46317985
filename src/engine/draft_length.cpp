#include "engine/draft_length.h"

#include <algorithm>
#include <bit>

namespace smelt {
namespace {

constexpr size_t kWindow = 9;         // steps whose median counts
constexpr size_t kEnough = 3;         // of them, before a length is judged
constexpr int64_t kTryAgain = 96;     // steps
constexpr double kRepaid = 50;        // times the cost of a try, before the next one
constexpr int64_t kManyUnread = 32;   // steps without drafts: reading them shows in the time of the next ones
constexpr double kFirstGuess = 0.7;   // of a draft's being right
constexpr double kNew = 1.0 / 24;     // what one draft counts among those before it
constexpr double kWorthwhile = 1.02;  // gains below that are noise

// Plans have 1, 2, 4 ... rows: the token before the drafts has one.
size_t kind_of(int64_t length) { return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(length))); }

double median(std::deque<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

DraftLength::DraftLength(int64_t most)
    : lengths_{0}, kinds_(kind_of(most) + 1), right_(static_cast<size_t>(most), kFirstGuess) {
  for (int64_t rows = 2; rows - 1 < most; rows *= 2) lengths_.push_back(rows - 1);
  if (most > 0) lengths_.push_back(most);
}

double DraftLength::seconds(int64_t length) const {
  const Kind& kind = kinds_[kind_of(length)];
  return kind.seconds.empty() ? 0 : median(kind.seconds);
}

double DraftLength::expected_tokens(int64_t length) const {
  double tokens = 1, all_right = 1;
  for (int64_t i = 0; i < length; ++i) tokens += all_right *= right_[static_cast<size_t>(i)];
  return tokens;
}

double DraftLength::tokens_per_second(int64_t length) const {
  const double time = seconds(length);
  return time > 0 ? expected_tokens(length) / time : 0;
}

double DraftLength::fastest() const {
  double most = 0;
  for (int64_t length : lengths_) most = std::max(most, tokens_per_second(length));
  return most;
}

int64_t DraftLength::next() {
  ++steps_;
  // Long drafts first: they tell most about how often drafts are right.
  for (auto length = lengths_.rbegin(); length != lengths_.rend(); ++length) {
    const Kind& kind = kinds_[kind_of(*length)];
    const int64_t unread = *length > 0 ? steps_ - 1 - last_drafts_ : 0;
    const double cost = kind.cost + cost_of_step_ * static_cast<double>(unread);
    if (kind.seconds.size() < kEnough ||
        (steps_ - kind.last_step > kTryAgain && all_seconds_ - kind.since >= kRepaid * cost))
      return *length;
  }
  int64_t best = 0;
  double most = tokens_per_second(0) * kWorthwhile;
  for (int64_t length : lengths_)
    if (const double speed = tokens_per_second(length); length > 0 && speed > most) best = length, most = speed;
  return best;
}

void DraftLength::record(int64_t drafted, int64_t accepted, double seconds) {
  Kind& kind = kinds_[kind_of(drafted)];
  const double usual = kind.seconds.empty() ? seconds : median(kind.seconds), most = fastest();
  if (const int64_t unread = steps_ - 1 - last_drafts_; drafted > 0 && unread >= kManyUnread)
    cost_of_step_ = std::max(0.0, seconds - usual) / static_cast<double>(unread);
  if (drafted > 0) last_drafts_ = steps_;
  kind.cost = most > 0 ? std::max(0.0, std::min(seconds, usual) - static_cast<double>(1 + accepted) / most) : 0;
  kind.last_step = steps_;
  kind.since = all_seconds_ += seconds;
  kind.seconds.push_back(seconds);
  if (kind.seconds.size() > kWindow) kind.seconds.pop_front();
  for (int64_t i = 0; i < std::min(drafted, accepted + 1); ++i) {
    double& right = right_[static_cast<size_t>(i)];
    right += kNew * ((i < accepted ? 1.0 : 0.0) - right);
  }
}

}  // namespace smelt
