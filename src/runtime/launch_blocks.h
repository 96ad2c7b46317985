// How many blocks a launch has, where the device has the choice, and how they come to lie on its processors.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/source.h"

namespace smelt {

// Of tasks for each block, from which on their greatest number says little: some have nothing to do, as those of
// experts without tokens.
constexpr int64_t kManyRounds = 8;

// Of `most` that the GPU holds at once. Where each makes something for itself, no more of them than change how many
// tasks the busiest one has, if that is few. Else all: a launch often has fewer tasks than the greatest number says.
inline int64_t blocks_for(const LaunchShape& shape, int64_t most) {
  if (shape.blocks > 0) return shape.blocks;
  const int64_t tasks = std::max<int64_t>(shape.tasks, 1), blocks = std::min(tasks, most);
  if (!shape.has_prologue) return blocks;
  const int64_t rounds = (tasks + blocks - 1) / blocks;
  return rounds < kManyRounds ? (tasks + rounds - 1) / rounds : blocks;
}

// On-chip memory of a processor of a GPU. Each block takes `reserved_bytes` more than it asks for.
struct SharedMemory {
  int64_t processor_bytes = 0;
  int64_t reserved_bytes = 0;
};

// What a block has to ask for, that all `processors` get blocks and none gets more than its share. Blocks of a launch
// that waits for the one before are packed else: the processors that are free first get as many as fit. 0: nothing, for
// a launch of few blocks is rather packed than left without a first-level cache, and one of many fills all processors.
inline int64_t spreading_bytes(int64_t blocks, int64_t processors, const SharedMemory& memory) {
  if (4 * blocks < 3 * processors || blocks > 2 * processors) return 0;
  const int64_t share = (blocks + processors - 1) / processors;
  return std::max<int64_t>(memory.processor_bytes / (share + 1) - memory.reserved_bytes + 1, 0);
}

}  // namespace smelt
