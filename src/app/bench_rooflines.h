// How fast this machine reads memory, measured while something else is timed.
//
// What a shared machine reads changes by half from one second to the next, so one measurement before a run says little
// about the run. Those who time measure again between their runs, so that both see the same minutes.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>

#include "runtime/memory.h"
#include "runtime/workers.h"

namespace smelt {

// By number of threads; the best that was seen, since other work on the machine can only take away from it.
class Rooflines {
 public:
  void measure(int threads) {
    Workers workers(threads);
    Measured& m = measured_[threads];
    m.best = std::max(m.best, read_bandwidth(workers) * 1e9);
    m.last = Clock::now();
  }
  // The same unless it was done a moment ago: for runs that may be short.
  void measure_between(int threads) {
    const auto found = measured_.find(threads);
    if (found == measured_.end() || Clock::now() - found->second.last > std::chrono::seconds(1))
      measure(threads);
  }
  double of(int threads) const { return measured_.at(threads).best; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Measured {
    double best = 0;  // bytes a second
    Clock::time_point last;
  };
  std::map<int, Measured> measured_;
};

}  // namespace smelt
