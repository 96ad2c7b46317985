// Plan: the launches of one forward pass, captured once and replayed for every token or chunk.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "engine/compile.h"
#include "model/deepseek2.h"
#include "runtime/memory.h"

namespace smelt {

// Where a segment's slots lie in memory.
using Resolve = std::function<const void*(const SlotBinding& slot)>;

class Plan {
 public:
  // Appends the launches of a compiled segment. Temps lie in `arena` (segment.schedule.arena_bytes).
  // REQUIRES: the compiler has finished; all memory outlives the plan.
  void append(const Compiler& compiler, int segment, const std::vector<SlotBinding>& slots,
              const Resolve& resolve, void* arena);

  std::span<const Launch> launches() const { return launches_; }
  // For each launch, its kernel's number in the compiler.
  std::span<const int> kernels() const { return kernels_; }

 private:
  std::vector<Launch> launches_;
  std::vector<int> kernels_;
  std::deque<std::vector<const void*>> pointers_;  // a deque: launches point into it
};

}  // namespace smelt
