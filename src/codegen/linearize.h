// Linearize: the trees of a kernel's nests become a list of instructions with loops.
//
// Every value is computed in the outermost loop where all that it depends on is known, so invariants leave loops by
// construction, and each node is computed once per such place, so common subexpressions are shared. Reductions over the
// same ranges that do not depend on each other share one loop.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/machine.h"
#include "codegen/program.h"
#include "codegen/stage_reads.h"
#include "codegen/task_copies.h"

namespace smelt {

// What the next tiles will read from memory, to be prefetched while this one computes: a line in every iteration of the
// innermost loops. Tiles that follow each other take turns where there are more lines than iterations.
struct Ahead {
  Ref buffer, offset;  // of the first byte; of values that the tile knows
  int64_t bytes = 0;
  Ref turn;  // the number of the tile
};

struct ExpandedNest {
  // After expand(): ranges are Sweep, Tile, Chunk, Task, Loop or Lane; reductions run over Reduce ranges. Neighbouring
  // nests with the same Tile ranges run one after the other in each of these tasks; those with the same Chunk range in
  // each of its iterations. Those with Sweep ranges run by themselves.
  Refs stores;
  bool is_local = false;  // run in full by every worker
  std::optional<Ahead> ahead = {};
  std::optional<Staging> staging = {};
  std::optional<TaskCopies> copies = {};
};

// How far ahead a program asks for what it will read is a matter of the machine. `symbols` are the launch values in the
// order that the caller gives them in; variables not among them are added behind.
Program linearize(std::span<const ExpandedNest> nests, const Machine& machine, std::string name,
                  std::vector<std::string> symbols = {});

}  // namespace smelt
