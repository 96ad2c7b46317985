// A kernel as a tree that does not know which buffers it runs on (schedule.h): equal work is the same node.
#pragma once

#include "graph/node.h"

namespace smelt {

struct KernelTree {
  Ref tree;      // over Params numbered in order of appearance
  Refs buffers;  // which segment Param or Temp each of these is
};

KernelTree kernel_tree(Ref nests);

}  // namespace smelt
