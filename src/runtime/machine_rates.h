// What this machine can do at best at this moment, by the threads that kernels run on.
#pragma once

#include "base/result.h"

namespace smelt {

struct MeasuredRates {
  double bandwidth = 0;  // bytes a second that all threads read from memory together
  // Operations of f32 a second of processor time, two for a multiply-add, in registers as wide as vectors are. Work of
  // other programs on the same cores does not change it; threads beyond the cores that this program may use add
  // nothing.
  double one_thread = 0, all_threads = 0;
  // The same of products of bytes that are added up, two for each, in vectors and by the matrix unit, by all threads;
  // 0: this processor has no such instruction.
  double byte_dots = 0, unit = 0;
  double barrier_seconds = 0;  // an empty launch and its barrier
};

// The best of a few passes, 0.2 s in all. `threads` as in DeviceOptions.
Result<MeasuredRates> measure_rates(int threads);

}  // namespace smelt
