// A good set of options at once, without timing anything.
#pragma once

#include <vector>

#include "base/machine.h"
#include "codegen/opt.h"

namespace smelt {

// What LOCAL and GROUP fill on this machine.
LaneRules lane_rules(const Machine& machine);

// REQUIRES: stores come from split_ranges(). A local nest gets no tasks.
std::vector<Opt> choose_opts(const Refs& stores, const Machine& machine, bool is_local);

}  // namespace smelt
