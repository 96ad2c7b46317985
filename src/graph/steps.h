// Steps: tensors whose elements along an axis are made one after another, each from what the step before has left.
//
//   left = left_before("state", {heads, steps, n}, 1)      what the step before has left; zeros for the first step
//   found = where(begins, first, left)                     a step may begin anew
//   leave(left, 1, g(found))                               a root: what a step leaves
//   y = f(found)                                           results, with a value of each step
//
// It is the one effect that a graph has on itself, so it is written with the nodes of effects: what is left is a Local,
// an on-chip buffer, here with a shape, and who leaves something is a Write to it, whose rows are those along the axis
// arg.i in place of the first one: row src1[s] = s + 1 of it becomes row s of src2. How it is computed:
// schedule/scans.h.
#pragma once

#include <string>
#include <vector>

#include "graph/operands.h"
#include "graph/tensor.h"

namespace smelt {

// f32. `number` tells what is left in a graph apart.
Tensor left_before(int number, std::vector<Dim> shape);
Ref leave(Tensor left, int axis, Tensor next);

// Whether it is such a root.
inline bool is_leaving(Ref node) { return node->op == Op::Write && WriteView(node).buffer->op == Op::Local; }
// The axis of its steps.
inline int axis_of_steps(Ref leaving) { return static_cast<int>(leaving->arg.i); }

}  // namespace smelt
