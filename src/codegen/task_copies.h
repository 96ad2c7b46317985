// What a task reads of weights, copied on chip as a whole: the first task's before the launch waits for the one before
// it, as no launch writes weights. Threads then need no registers for what is on its way, and when the launch has
// waited a word is some 30 cycles away, not the several hundred of the second-level cache.
//
//   sum(w[task * 4608 + row * 144 + k] * x[k]; k)  ->  sum(copy[row * 144 + k] * x[k]; k)
//
// With the weights goes what rows of a task share of what launches have stored, where each task has its own, as heads
// have: its threads send that when the launch has waited.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/machine.h"
#include "graph/node.h"

namespace smelt {

struct TaskCopy {
  Ref buffer, begin;  // a byte offset, which the number of the task decides
  int64_t bytes = 0;
  Ref memory;                 // on chip
  bool is_of_weights = true;  // no launch writes the buffer
};

struct TaskCopies {
  std::vector<TaskCopy> copies;  // some of weights
  Ref signal;                    // that counts those of weights
  int64_t of_weights() const;
  int64_t bytes() const;
};

struct NestWithCopies {
  Refs stores;
  std::optional<TaskCopies> copies;
};

constexpr int64_t kMostTaskCopyLocals = 8;  // the signal and what is copied

// Of nests of blocks of threads that have a task or a few for each. On-chip buffers are numbered from `local` on, and
// copies of weights take `room` bytes at most. Behind expand() and coalesce_loads(), whose loads it replaces.
NestWithCopies copy_for_tasks(const Refs& stores, const Machine& machine, int64_t local, int64_t room);

}  // namespace smelt
