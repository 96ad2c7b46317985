// Execution: what a program does when it runs, counted from its instructions and the rounds of its loops. Beside what
// its kernel must do (cost.h) this tells what options have made of it.
//
// Rounds are those of given symbols. Loops whose bounds follow from values in memory count as one round.
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
  double float_ops = 0;  // of all workers together; what each computes for itself counts for each
  double serial_share = 0;  // of the time that loops take at least, see below
  int serial_cycles =
      0;  // of a round of the loop that this is most of: one addition after the other
  int serial_instructions = 0;  // in that round
};

// A loop is serial if each round waits for a sum of the round before for longer than its instructions take: the longest
// chain of operations from an accumulator to itself, in cycles, against the instructions of a round, two a cycle.
Execution execution_of(const Program& program, const SymbolValues& symbols = {}, int workers = 1);

}  // namespace smelt
