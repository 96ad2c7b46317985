#pragma once

#include <chrono>

namespace smelt {

class Stopwatch {
 public:
  // Seconds since the last lap, or since construction.
  double lap() {
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace smelt
