#include "app/bench_rooflines.h"

#include <algorithm>

#include "runtime/machine_rates.h"

namespace smelt {

void Rooflines::measure(int threads) {
  Measured& m = measured_[threads];
  if (const auto rates = measure_rates(threads)) {
    m.bandwidth_now = rates->bandwidth;
    m.bandwidth = std::max(m.bandwidth, m.bandwidth_now);
    m.arithmetic.threads = threads;
    m.arithmetic.add(*rates);
  }
  m.last = Clock::now();
}

void Rooflines::measure_between(int threads) {
  const auto found = measured_.find(threads);
  if (found == measured_.end() || Clock::now() - found->second.last > std::chrono::seconds(1)) measure(threads);
}

}  // namespace smelt
