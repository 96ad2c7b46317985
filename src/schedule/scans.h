// Scans: steps that need each other in order (graph/steps.h), with what passes from one to the next on chip.
//
//   found = where(begins, first, left)      for each task { for each step {
//   y = f(found), leave(g(found))             local found = begins ? first : local next
//                                             y = f(local found), local next = g(local found) } }
//
// What is made of `left` step by step is a tile (tiles.h) that goes over the steps as others do over chunks. The axes
// in front of that of the steps are shared out as tasks, one element each, so a step may look at no other element of
// them: between what is left and what leaves the tile there are elementwise ops and those of axes behind that of the
// steps. What the model gives a place is kept on chip, but for results: placed tensors that others read (in memory),
// and writes of all that a step leaves, the axis of the steps first.
#pragma once

#include <vector>

#include "graph/views.h"
#include "schedule/lower.h"

namespace smelt {

struct ScanTensors {
  int axis = 0;    // of the steps, behind those that tasks share out
  Ref left, next;  // what the step before has left, and what a step leaves
  // Filled in by find_members(). Next is an inner one; left is no tensor of its own, but next as it was.
  Refs inner, ends, writes;
  Refs made;  // of left in a step, members or not: nothing else of it may have a place
};

// The graph without what steps leave, which is appended to `scans`.
Ref split_scans(Ref root, std::vector<ScanTensors>& scans);

// What is computed step by step. REQUIRES: it is as above.
void find_members(Ref root, ScanTensors& scan);

// The store of what a step leaves to rows of a buffer. REQUIRES: the members that are kept on chip are placed.
Ref store_written(Lowering& lowering, const ScanTensors& scan, Ref write);
// In front of all steps: zeros, where the first one finds what the last has left.
Ref store_before(Lowering& lowering, const ScanTensors& scan);

// What a step stores, in order, made element by element of an on-chip buffer that nobody reads later, takes its place.
void reuse_buffers(Refs& before, Refs& steps);

}  // namespace smelt
