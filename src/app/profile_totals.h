// Adds up what launches cost: kernel by kernel, stage by stage, layer by layer.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/profile_data.h"
#include "codegen/cost.h"
#include "codegen/execution.h"
#include "engine/profile.h"

namespace smelt {

// What one launch of a kernel does, for given launch values.
struct LaunchFacts {
  KernelCost cost;
  KernelShape shape;
  Program program;
  Execution execution;
};

class ProfileTotals {
 public:
  // Of a launch in one replay.
  struct Time {
    double seconds = 0;
    double waiting = 0;  // of these, on average over the workers: for the others to end
    double workers = 0;  // that had tasks of it; 0: not known
  };
  using TimeOf = std::function<Time(size_t launch, const LaunchFacts& facts)>;

  // REQUIRES: the kernels outlive it. `threads`: workers that share a launch; `nodes`: of memory, that they are on, if
  // there are several.
  ProfileTotals(const KernelSet& kernels, int threads, std::vector<int> nodes = {})
      : kernels_(kernels), threads_(threads), nodes_(std::move(nodes)) {}

  // Adds `times` replays of a plan with these launch values, whose tokens have `position` in their middle.
  void add(const std::vector<PlanLaunch>& launches, const SymbolValues& symbols, int64_t position, double times,
           const TimeOf& time_of);

  // All of it, divided by `replays`.
  ProfiledPlan plan(const std::string& name, double tokens, int replays, const MachineRates& machine) const;

 private:
  LaunchFacts facts_of(const PlanLaunch& launch, const SymbolValues& symbols, int64_t position) const;
  void add_kernel(const PlanLaunch& launch, const LaunchFacts& facts, double times, const Time& time);

  const KernelSet& kernels_;
  const int threads_;
  const std::vector<int> nodes_;
  std::map<int, ProfiledKernel> by_number_;
  std::map<int, std::map<std::string, double>> stage_of_;  // of each kernel: seconds by stage
  std::map<int, double> most_operations_;                  // of the replays whose shape is told
  std::vector<ProfiledPart> stages_, layers_;
};

// The stage of each launch of a plan.
std::vector<std::string> stages_of(const std::vector<PlanLaunch>& launches);

}  // namespace smelt
