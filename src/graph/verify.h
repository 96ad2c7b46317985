// Verification: which graphs are legal at which stage. Runs between passes in debug builds and on
// everything parsed.
#pragma once

#include "base/result.h"
#include "graph/node.h"

namespace smelt {

enum class Stage : uint8_t {
  Tensor,    // a Sink of Outputs and Writes; nodes have shapes; no ranges, loads or stores
  Kernel,    // a Sink of Stores, or of Sinks of Stores; scalars over ranges; no movement ops
  Expanded,  // a kernel without Unroll ranges, and whose lanes leave reductions by LaneReduce
};

// Ops, numbers and types of sources, shapes, and that every range is used inside its loop. The
// error is one line that names the node: "[verify] kernel: add i64 (r0 + 1): ...".
Status verify(Ref root, Stage stage);

}  // namespace smelt
