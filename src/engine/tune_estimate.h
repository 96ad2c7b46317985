// How long a program should take, from its instructions alone: good enough to leave out what is hopeless before it is
// compiled. Figures of one kernel compare with each other; they are no forecast of microseconds.
#pragma once

#include "base/machine.h"
#include "codegen/cost.h"
#include "codegen/program.h"

namespace smelt {

struct ProgramEstimate {
  double work = 0;     // of all workers, each as one thread: instructions of its vectors, gathers by the lane
  double spills = 0;   // instructions more, where a loop carries more values than there are registers
  double seconds = 0;  // of a launch
};

struct EstimateRequest {
  const Program& program;
  const Machine& machine;
  int workers = 1;
  SymbolValues symbols;
  int64_t tasks = 1;            // shape_of()
  double bytes = 0;             // that come from memory: cost_of()
  double bytes_per_second = 0;  // that memory gives; 0: as much as you like
};

// Loops whose bounds follow from values in memory count as one round.
ProgramEstimate estimate(const EstimateRequest& request);

}  // namespace smelt
