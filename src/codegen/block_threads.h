// LOCAL and GROUP where lanes are threads of a block: which threads an axis takes.
//
// An axis of n takes the threads t / stride % n. Axes that are needed at the same time take different digits of the
// number of a thread: those of outputs, and those of a reduction beside what its terms depend on. Reductions that stand
// side by side, and outputs that a sum is the same for, use the same threads one after the other.
#pragma once

#include "codegen/opt.h"
#include "graph/views.h"

namespace smelt {

// Where the threads begin that LOCAL or GROUP along the range would take. REQUIRES: `range` is an axis of the stores.
int64_t stride_of_threads(const Refs& stores, Ref range);

// Threads that the ranges of these stores need: a multiple of a warp, or 1.
int threads_of(const Refs& stores);

// How many of the threads that reductions of this dtype over `range` combine are in one warp, where they reach each
// other by changing bits of their index; further ones, and values of other sizes, go through on-chip memory.
int64_t count_in_warp(DType dtype, Ref range);
inline bool crosses_warps(DType dtype, Ref range) { return count_in_warp(dtype, range) < RangeView(range).count(); }

// The on-chip memory through which `threads` threads pass values to each other in these stores, before expand().
int64_t exchange_bytes(const Refs& stores, int threads);

}  // namespace smelt
