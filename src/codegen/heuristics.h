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

// What was chosen for a nest, and the nest with it.
struct ChosenOpts {
  std::vector<Opt> opts;
  Refs stores;  // with PANEL: those of panel.h that read the panel
};

// REQUIRES: stores come from split_ranges(). A local nest gets no tasks.
ChosenOpts choose_and_apply(const Refs& stores, const Machine& machine, bool is_local, const OptObserver& observe = {});
std::vector<Opt> choose_opts(const Refs& stores, const Machine& machine, bool is_local,
                             const OptObserver& observe = {});

}  // namespace smelt
