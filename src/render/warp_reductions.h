// Sums and maxima over a warp that an NVIDIA GPU makes by one instruction, `redux.sync`: of integers, and maxima of
// floats that have no sign. A program writes them as five steps between threads (simd_reductions.h), each of which
// waits for the one before.
#pragma once

#include <vector>

#include "codegen/program.h"
#include "render/simd_reductions.h"

namespace smelt {

using WarpReduction = SimdReduction;

class WarpReductions {
 public:
  // Of a program that waits for the launch before: GPUs that have that (compute capability 9) have the instruction,
  // too. None of another one.
  explicit WarpReductions(const Program& program);

  // What the last step of one has as its result; null: the instruction is no last step.
  const WarpReduction* find(int position) const;
  // Whether nothing needs the instruction, as it is a step of one.
  bool is_step(int position) const { return is_step_[static_cast<size_t>(position)]; }

 private:
  std::vector<WarpReduction> results_;  // by position
  std::vector<bool> is_step_;
};

}  // namespace smelt
