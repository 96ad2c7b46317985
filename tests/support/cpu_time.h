// What this thread has computed: other work on the machine does not count.
#pragma once

#include <time.h>

namespace smelt::test {

inline double seconds_on(clockid_t clock) {
  timespec time;
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class F>
double cpu_seconds_of(const F& f) {
  const double start = seconds_on(CLOCK_THREAD_CPUTIME_ID);
  f();
  return seconds_on(CLOCK_THREAD_CPUTIME_ID) - start;
}

}  // namespace smelt::test
