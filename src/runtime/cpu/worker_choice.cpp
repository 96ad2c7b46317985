#include "runtime/cpu/worker_choice.h"

#include <algorithm>
#include <bit>

namespace smelt {

void WorkerChoice::took(int64_t nanoseconds, std::span<const int64_t> symbols) {
  if (most_ == 1) return;
  ++runs_;
  if (is_settled_) {
    if (runs_ < kRunsUntilAgain) return;
    is_settled_ = false;
    tried_ = most_;
    runs_ = 0;
    return;
  }
  if (!std::ranges::equal(symbols, symbols_)) {
    symbols_.assign(symbols.begin(), symbols.end());
    tried_ = most_;
    runs_ = 0;
    times_.clear();
    return;
  }
  if (runs_ <= kWarmUp) return;
  times_.push_back(nanoseconds);
  if (times_.size() < kRuns) return;
  const auto middle = times_.begin() + kRuns / 2;
  std::nth_element(times_.begin(), middle, times_.end());
  judge(*middle);
}

void WorkerChoice::judge(int64_t typical) {
  times_.clear();
  runs_ = 0;
  const bool is_first = tried_ == most_;
  if (!is_first && static_cast<double>(typical) >= kGain * static_cast<double>(best_time_)) return settle();
  best_ = tried_;
  best_time_ = typical;
  if (tried_ == 1 || (is_first && typical > kLongestRun)) return settle();
  tried_ /= 2;
}

void WorkerChoice::settle() {
  tried_ = best_;
  is_settled_ = true;
}

WorkerChoice& WorkerChoices::of(std::span<const int64_t> symbols) {
  uint64_t work = 0;  // the number of bits of each
  for (int64_t symbol : symbols)
    work = work * 65 + static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(symbol)));
  return by_work_.try_emplace(work, most_).first->second;
}

}  // namespace smelt
