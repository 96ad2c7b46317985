// Streams: a sum over matrices that lie apart, as of the experts that a token chose, reads one after the other.
//
//   y[i] = sum_e f(e, i)                             for each task i: a part of each matrix in turn
//
//   for each e: for each task i: part[e, i] = f(e, i)
//   for each task i: y[i] = sum_e part[e, i]         each matrix from its first row to its last
//
// A task that reads a few rows of each matrix in turn goes from one stream to another every few kilobytes, and
// prefetchers lose them. In the second form each worker goes over all of its tasks for one matrix (the loop over
// matrices is of kind Pass) and keeps the terms on chip; then it adds them up. Both nests share out the same tasks, so
// a worker reads only terms of its own, and no barrier stands between them. Terms are added in the same order.
#pragma once

#include <functional>

#include "graph/node.h"

namespace smelt {

// The nest in two where its only store has such a sum; as it is otherwise. REQUIRES: its ranges are Loops, as lowered.
// `on_chip_bytes` is the most that all terms may take, `new_local` makes the buffer for them.
Refs one_stream_at_a_time(Ref nest, int64_t on_chip_bytes,
                          const std::function<Ref(DType, int64_t bytes)>& new_local);

}  // namespace smelt
