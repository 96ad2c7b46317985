// The neighbours of a list of options: what a search looks at next.
//
// An option names its axis by a position that depends on the options before it, so taking one out of a list would
// change what the others mean. Here options are held by the numbers of their ranges, which splitting keeps apart
// (graph/range_kind.h), and are turned back into positions on the stores that they find; one that no longer fits is
// left out.
//
//   local(0,16) front(2) task(0)   without the first   front(1) task(0), of the loops that these were
#pragma once

#include <vector>

#include "codegen/heuristics.h"
#include "codegen/opt.h"

namespace smelt {

// Lists of options for the nest, each legal and one step from `opts`: an option left out, put in, of another amount,
// lanes on another axis, another loop outermost, more or fewer loops shared out as tasks. Without `opts` itself, and
// each list once. REQUIRES: `opts` fit `stores`; a local nest gets no tasks.
std::vector<std::vector<Opt>> neighbours(const Refs& stores, const std::vector<Opt>& opts, const Machine& machine,
                                         bool is_local);

// Lists to start from: what the heuristic chooses for this machine and for machines somewhat like it.
std::vector<std::vector<Opt>> starting_points(const Refs& stores, const Machine& machine, bool is_local);

}  // namespace smelt
