#include "engine/speculation.h"

#include <algorithm>

namespace smelt {
namespace {

constexpr int64_t kEnoughSteps = 8;  // fewer do not say what a step without drafts takes

}  // namespace

int64_t DraftCounts::drafted() const {
  int64_t sum = 0;
  for (const Place& place : places) sum += place.drafted;
  return sum;
}

int64_t DraftCounts::accepted() const {
  int64_t sum = 0;
  for (const Place& place : places) sum += place.accepted;
  return sum;
}

double DraftCounts::net_ratio() const {
  if (single_steps < kEnoughSteps || seconds <= 0) return 0;
  return static_cast<double>(tokens) * single_seconds / static_cast<double>(single_steps) / seconds;
}

Speculation::Speculation(std::shared_ptr<Drafter> drafter, const DraftOptions& options)
    : drafter_(std::move(drafter)), options_(options), length_(options.most) {
  counts_.places.resize(static_cast<size_t>(options.most));
}

Result<std::vector<DraftToken>> Speculation::draft(std::span<const int32_t> text, int64_t room) {
  const int64_t wanted = std::min(room, options_.adaptive ? length_.next() : options_.most);
  SMELT_TRY(drafts, drafter_->draft(text, wanted));
  // Of drawn ones none may be dropped by what comes behind them: the others would be distributed otherwise.
  const bool are_drawn = !drafts.empty() && !drafts.front().drawn_from.empty();
  if (!are_drawn && static_cast<int64_t>(drafts.size()) < options_.least) drafts.clear();
  return drafts;
}

void Speculation::record(int64_t drafted, int64_t accepted, double seconds) {
  for (int64_t i = 0; i < drafted; ++i) {
    DraftCounts::Place& place = counts_.places[static_cast<size_t>(i)];
    ++place.drafted;
    place.accepted += i < accepted;
  }
  ++counts_.steps;
  counts_.tokens += 1 + accepted;
  counts_.seconds += seconds;
  length_.record(drafted, accepted, seconds);
  if (drafted > 0) return;
  ++counts_.single_steps;
  counts_.single_seconds += seconds;
}

}  // namespace smelt
