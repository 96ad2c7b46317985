// In which order the terms of a float sum are added is decided here, once for a node and a machine, before options:
// these only realise it, so results have the same bits whichever are chosen.
//
//   sum(t[k]; k < 2048)  ->  sum(t[i * 64 + p]; i < 32, p < 64)        p: a range of partial sums
//
// A partial sum adds its terms one after the other, in the order of the ranges, each product with one rounding
// (fuse_multiply_adds). Partial sums are combined by halves: p with p + 32, then with p + 16, and so on; an odd factor
// of their number goes first. So they can be lanes of vectors (option GROUP), threads, registers, or all of these, and
// a loop may be written out (UNROLL), split, and stand around or inside of others.
//
// How many partial sums: as many as lanes, where lanes read neighbours; four times as many where nothing else hides
// the latency of an addition. Threads of a block share every long sum, if there is one row of outputs; one of groups in
// superblocks along several axes, of which those in front are combined first, until the rows of the matrix fill the
// machine. It must not depend on how many rows, tokens or heads are computed together.
#pragma once

#include "codegen/heuristics.h"

namespace smelt {

// REQUIRES: stores come from split_ranges().
Refs order_sums(const Refs& stores, const Machine& machine, bool is_local);

// Whether the order in which a reduction combines its terms shows in its result.
bool has_order(Ref reduce);

// Partial results of a reduction that are no lanes: registers that it takes.
int64_t partial_registers(Ref reduce);

}  // namespace smelt
