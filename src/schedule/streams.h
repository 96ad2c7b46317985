// Streams: a sum over matrices that lie apart, as of the experts that a token chose, reads one after the other.
//
//   y[i] = sum_e w[e] * f(e, i)                      for each task i: a part of each matrix in turn
//
//   for each e: for each task i: part[e, i] = f(e, i)
//   for each task i: y[i] = sum_e w[e] * part[e, i]  each matrix from its first row to its last
//
// A task that reads a few rows of each matrix in turn switches streams every few kilobytes, too often for hardware
// prefetchers. In the second form each worker goes over all of its tasks for one matrix (the loop over
// matrices is of kind Sweep) and keeps the terms on chip; then it adds them up. Both nests share out the same tasks, so
// a worker reads only parts of its own, and no barrier stands between them. Terms are added in the same order, so that
// both forms give the same bits.
#pragma once

#include <functional>

#include "base/machine.h"
#include "graph/node.h"

namespace smelt {

// The nest in two where its only store has such a sum; as it is otherwise. REQUIRES: its ranges are Loops, as lowered.
// All parts take Machine::local_bytes at most, a task has Machine::task_rows; `new_local` makes the buffer for them.
Refs one_stream_at_a_time(Ref nest, const Machine& machine, const std::function<Ref(DType, int64_t bytes)>& new_local);

}  // namespace smelt
