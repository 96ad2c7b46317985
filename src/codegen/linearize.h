// Linearize: the trees of a kernel's nests become a list of instructions with loops.
//
// Every value is computed in the outermost loop where all that it depends on is known, so invariants leave loops by
// construction, and each node is computed once per such place, so common subexpressions are shared. Reductions over the
// same ranges that do not depend on each other share one loop.
#pragma once

#include <span>
#include <string>

#include "codegen/program.h"

namespace smelt {

struct ExpandedNest {
  // After expand(): ranges are Tile, Task, Loop or Lane; reductions run over Reduce ranges. Neighbouring nests with the
  // same Tile ranges run one after the other in each of these tasks.
  Refs stores;
  bool is_local = false;  // run in full by every worker
};

// `symbols` are the launch values in the order that the caller gives them in; variables not among them are added
// behind.
Program linearize(std::span<const ExpandedNest> nests, std::string name,
                  std::vector<std::string> symbols = {});

}  // namespace smelt
