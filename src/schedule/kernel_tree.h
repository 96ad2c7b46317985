// A kernel as a tree that does not know which buffers it runs on (schedule.h): equal work is the same node.
#pragma once

#include "base/machine.h"
#include "graph/node.h"

namespace smelt {

struct KernelTree {
  Ref tree;      // over Params numbered in order of appearance
  Refs buffers;  // which segment Param or Temp each of these is
};

// Where launches overlap, Params say which of them no kernel writes (is_given()).
KernelTree kernel_tree(Ref nests, const Machine& machine);

}  // namespace smelt
