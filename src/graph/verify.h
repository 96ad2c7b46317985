// Verification: which graphs are legal in which phase of the compiler. Runs between passes in debug builds and on
// everything parsed.
#pragma once

#include <optional>
#include <string>

#include "base/machine.h"
#include "base/result.h"
#include "graph/node.h"

namespace smelt {

enum class Phase : uint8_t {
  Tensor,    // a Sink of Outputs and Writes; nodes have shapes; no ranges, loads or stores
  Kernel,    // a Sink of Stores, or of Sinks of Stores; scalars over ranges; no movement ops
  Expanded,  // a kernel without Unroll ranges, and whose lanes leave reductions by LaneReduce
};

// Ops, numbers and types of sources, shapes, and that every range is used inside its loop. The
// error is one line that names the node: "[verify] kernel: add i64 (r0 + 1): ...".
Status verify(Ref root, Phase phase);

struct VerifyFault {
  Ref node;
  std::string message;
};
// The first thing that verify() minds; nothing where it minds none.
std::optional<VerifyFault> fault_in(Ref root, Phase phase);

// A kernel of the name `name` as the machine will run it: verify(tree, Phase::Kernel), nests find on chip what they
// read there, and all that is kept there fits together (graph/on_chip.h).
Status verify_kernel(Ref tree, const std::string& name, const Machine& machine);

}  // namespace smelt
