// Where each temporary of a segment lives: buffers whose lifetimes do not meet share memory.
#pragma once

#include "schedule/schedule.h"

namespace smelt {

struct Lifetime {
  int64_t bytes = 0;
  int first = 0;  // level that writes it
  int last = 0;   // last level that reads it
};

struct MemoryPlan {
  std::vector<TempBuffer> buffers;
  int64_t bytes = 0;
};

// Largest first, each at the lowest offset free of every buffer alive at the same time. Offsets are multiples of 64,
// and each buffer is followed by 64 spare bytes so that a vector may be read past its end.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes);

}  // namespace smelt
