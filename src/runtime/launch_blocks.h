// How many blocks a launch has, where the device has the choice.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/source.h"

namespace smelt {

// Of `most` that the GPU holds at once. Blocks that keep something on chip make it anew each: so no more of them than
// change how many tasks the busiest one has.
inline int64_t blocks_for(const LaunchShape& shape, int64_t most) {
  if (shape.blocks > 0) return shape.blocks;
  const int64_t tasks = std::max<int64_t>(shape.tasks, 1), blocks = std::min(tasks, most);
  if (shape.shared_bytes == 0) return blocks;
  const int64_t rounds = (tasks + blocks - 1) / blocks;
  return (tasks + rounds - 1) / rounds;
}

}  // namespace smelt
