// Execution: what a program does when it runs, counted from its instructions and the trip counts of its loops. Beside
// what its kernel must do (cost.h) this tells what options have made of it.
//
// Trip counts are those of given symbols. Loops whose bounds follow from values in memory count as one iteration.
#pragma once

#include <vector>

#include "codegen/cost.h"
#include "codegen/program.h"

namespace smelt {

// Loads of all workers together.
struct Loads {
  double vectors = 0;  // of neighbouring elements at once
  double gathers = 0;  // each lane from its own address
  double scalars = 0;
  double bytes = 0;
  double total() const { return vectors + gathers + scalars; }
};

struct Execution {
  Loads loads;                     // of buffers and of scratch
  std::vector<Loads> of_argument;  // those of each buffer
  bool is_exact = true;            // all bounds follow from the symbols
  double float_ops = 0;            // of all workers together; what each computes for itself counts for each
  double serial_share = 0;         // of the time that loops take at least: that of serial loops, see below
  int serial_cycles = 0;           // of an iteration of the longest serial loop
  int serial_instructions = 0;     // in that iteration
};

// A loop is serial if it is bound by latency: its longest loop-carried chain (from an accumulator to itself) takes more
// cycles than its instructions, two a cycle.
Execution execution_of(const Program& program, const SymbolValues& symbols = {}, int workers = 1);

}  // namespace smelt
