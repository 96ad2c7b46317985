// How fast this machine reads memory and computes, measured while something else is timed.
//
// What a shared machine can do changes by half from one second to the next, so one measurement before a run says little
// about the run. Those who time measure again between their runs, so that both see the same minutes.
#pragma once

#include <map>

#include "app/arithmetic.h"
#include "base/clock.h"

namespace smelt {

// By number of threads.
class Rooflines {
 public:
  void measure(int threads);          // 0.2 s
  void measure_between(int threads);  // the same unless it was done a moment ago: for runs that may be short

  // Bytes a second: the best that was seen, since other work on the machine can only take away from it.
  // REQUIRES: it was measured.
  double of(int threads) const { return measured_.at(threads).bandwidth; }
  // Bytes a second as measured last.
  double now(int threads) const { return measured_.at(threads).bandwidth_now; }
  const ArithmeticSeen& arithmetic(int threads) const { return measured_.at(threads).arithmetic; }

 private:
  struct Measured {
    double bandwidth = 0, bandwidth_now = 0;
    ArithmeticSeen arithmetic;
    Clock::time_point last;
  };
  std::map<int, Measured> measured_;
};

}  // namespace smelt
