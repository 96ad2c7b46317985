// What the launches of a plan cost, and with which launch values.
#pragma once

#include <cstdint>
#include <vector>

#include "app/bench_sample.h"
#include "codegen/cost.h"
#include "engine/profile.h"

namespace smelt {

// Of all replays of one plan.
class PlanTimes {
 public:
  void add(const RunTimes& run) {
    samples_.resize(run.times_ns.size() - 1);
    for (size_t i = 0; i + 1 < run.times_ns.size(); ++i)
      samples_[i].push_back(static_cast<double>(run.times_ns[i + 1] - run.times_ns[i]) * 1e-9);
    symbols_ = run.symbols;
    tokens_ = run.tokens;
    position_ = run.position;
  }

  void forget() { samples_.clear(); }
  bool empty() const { return samples_.empty(); }
  size_t launches() const { return samples_.size(); }
  // The least disturbed one.
  double seconds(size_t launch) const { return sample_of(samples_[launch]).min; }
  const SymbolValues& symbols() const { return symbols_; }
  int64_t tokens() const { return tokens_; }
  int64_t position() const { return position_; }

 private:
  std::vector<std::vector<double>> samples_;  // by launch
  SymbolValues symbols_;
  int64_t tokens_ = 0, position_ = 0;
};

}  // namespace smelt
