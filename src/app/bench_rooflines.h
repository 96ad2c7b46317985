// How fast this machine reads memory, measured while a benchmark runs.
#pragma once

#include <algorithm>
#include <map>

#include "runtime/memory.h"
#include "runtime/workers.h"

namespace smelt {

// By number of threads; the best that this run has seen, since other work on the machine can only take away from it.
class Rooflines {
 public:
  void measure(int threads) {
    Workers workers(threads);
    double& best = bytes_per_second_[threads];
    best = std::max(best, read_bandwidth(workers) * 1e9);
  }
  double of(int threads) const { return bytes_per_second_.at(threads); }

 private:
  std::map<int, double> bytes_per_second_;
};

}  // namespace smelt
