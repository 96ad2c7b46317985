// The arguments of tensor-level nodes by name. What each is for is written in ops.def, checked by verify_tensor.cpp,
// and known only here; those of kernel-level nodes are in views.h.
#pragma once

#include "graph/node.h"

namespace smelt {

// Of a Param the slot of its buffer, of an Output that of the buffer it goes to.
inline int64_t slot_of(Ref node) { return node->arg.i; }
// Of a Param: no kernel of a run writes it, see given_param().
inline bool is_given(Ref param) { return param->op == Op::Param && !param->arg.list.empty(); }

// Of an Iota, or a Flip.
inline int64_t axis_of(Ref node) { return node->arg.i; }

// Of a Permute: for each axis of the result the axis of the source.
inline const std::vector<int64_t>& permutation_of(Ref permute) { return permute->arg.list; }

// Of a Shrink: the first index along each axis.
inline const std::vector<int64_t>& begins_of(Ref shrink) { return shrink->arg.list; }

// Of a reduction.
inline const std::vector<int64_t>& reduced_axes(Ref reduce) { return reduce->arg.list; }

// Of a TopK: how many it takes.
inline int64_t top_count(Ref topk) { return topk->arg.i; }

// Of a Write: the first column that it fills.
inline int64_t first_column(Ref write) { return write->arg.i; }

}  // namespace smelt
