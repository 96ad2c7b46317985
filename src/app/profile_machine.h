// What a machine can do at best: the lines that kernels are compared with.
#pragma once

#include <string>

#include "app/arithmetic.h"
#include "base/machine.h"
#include "base/result.h"

namespace smelt {

struct MachineRates {
  int threads = 1;
  int cores = 1;                // that the program may use
  double bytes_per_second = 0;  // read from memory by all workers together
  ArithmeticSeen arithmetic;
  double barrier_seconds = 0;  // an empty launch and its barrier
};

// Of this machine, measured in about half a second.
Result<MachineRates> measure_machine(int threads);
// Of a device: where that is a GPU, its bandwidth is measured, and the rest is what its description says.
Result<MachineRates> measure_device(const std::string& device, int threads);
// Of a machine by its description.
MachineRates described_rates(const Machine& machine);

}  // namespace smelt
