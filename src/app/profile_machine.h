// What this machine can do at best, measured: the lines that kernels are compared with.
#pragma once

#include "base/result.h"

namespace smelt {

struct MachineRates {
  int threads = 1;
  double bytes_per_second = 0;      // read from memory by all workers together
  double float_ops_per_second = 0;  // f32 multiply-adds in registers, each counting two
  double barrier_seconds = 0;       // an empty launch and its barrier
};

// Takes about half a second.
Result<MachineRates> measure_machine(int threads);

}  // namespace smelt
