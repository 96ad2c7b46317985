// How much of what a launch reads lies on other nodes of memory than the workers that read it.
#pragma once

#include <span>

#include "codegen/cost.h"
#include "engine/profile.h"

namespace smelt {

// Of the bytes of its weights; 0 where all memory is alike. `nodes`: of each worker (runtime/memory_nodes.h).
double remote_share(const PlanLaunch& launch, const KernelCost& cost, std::span<const int> nodes);

// The same of one weight, whose pages at equal distances lie on `pages` (-1: not known). Workers share out its rows
// (engine/near_pieces.h), or, where rows are chosen, read all of it alike.
double remote_share_of(std::span<const int> pages, bool is_chosen, std::span<const int> nodes);

}  // namespace smelt
