// A good set of options at once, without timing anything.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/machine.h"
#include "codegen/opt.h"

namespace smelt {

// What LOCAL and GROUP fill on this machine.
LaneRules lane_rules(const Machine& machine);

// Called for each option that a choice tries, in order: why it could not be taken, empty where it was.
using OptObserver = std::function<void(const Opt& opt, const std::string& why_not)>;

// REQUIRES: stores come from split_ranges(). A local nest gets no tasks.
std::vector<Opt> choose_opts(const Refs& stores, const Machine& machine, bool is_local,
                             const OptObserver& observe = {});

}  // namespace smelt
