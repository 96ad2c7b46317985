// What a launch of a plan has to move and to compute, for given launch values.
#pragma once

#include "codegen/cost.h"
#include "engine/profile.h"

namespace smelt {

// `position`: in the middle of those that the tokens of the run have. Weights count with no more than all of their
// bytes: many tokens choose among the same experts.
KernelCost launch_cost(const PlanLaunch& launch, Ref tree, const SymbolValues& symbols, int64_t position);

}  // namespace smelt
