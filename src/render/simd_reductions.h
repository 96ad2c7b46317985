// Sums and maxima over all threads of a warp, which a program writes as steps between threads, recognised as a whole:
// for languages that have a word for them.
#pragma once

#include <vector>

#include "codegen/program.h"

namespace smelt {

struct SimdReduction {
  int value = -1;  // what is combined; -1: the instruction is none
  Op op = Op::ReduceSum;
};

struct SimdReductions {
  std::vector<SimdReduction> results;  // by instruction: of the last step
  std::vector<bool> is_step;           // by instruction: that nothing else needs

  // Of the reduction whose last step this is.
  std::vector<int> steps_of(const Program& program, int last) const;
};

SimdReductions simd_reductions(const Program& program);

}  // namespace smelt
