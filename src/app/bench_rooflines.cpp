#include "app/bench_rooflines.h"

#include <algorithm>

#include "runtime/memory.h"
#include "runtime/workers.h"

namespace smelt {

void Rooflines::measure(int threads) {
  Measured& m = measured_[threads];
  Workers workers(threads), one(1);
  m.bandwidth_now = read_bandwidth(workers) * 1e9;
  m.bandwidth = std::max(m.bandwidth, m.bandwidth_now);
  if (!arithmetic_)
    if (Result<Arithmetic> made = Arithmetic::make()) arithmetic_ = made.take();
  if (arithmetic_) {
    m.arithmetic.threads = threads;
    m.arithmetic.add(arithmetic_->rate(one), arithmetic_->rate(workers));
  }
  m.last = Clock::now();
}

void Rooflines::measure_between(int threads) {
  const auto found = measured_.find(threads);
  if (found == measured_.end() || Clock::now() - found->second.last > std::chrono::seconds(1))
    measure(threads);
}

}  // namespace smelt
