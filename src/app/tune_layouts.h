// The part of `smelt tune` that searches over layouts of weights.
//
// A weight is read by a kernel of decode and by kernels of a prompt, which want their best options for a layout before
// it can be compared with another. So each layout costs
//
//   sum over the kernels that read such weights of (share of its plan's time) * (its best time) / (its time now)
//
// and the cheapest one is kept, together with the options that its kernels had.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/profile_machine.h"
#include "app/tune_times.h"
#include "base/result.h"
#include "engine/session.h"
#include "engine/tune.h"
#include "engine/tuned_options.h"

namespace smelt {

// A kernel of a plan that reads weights of a role.
struct RoleKernel {
  PlanKind plan;
  std::string name, stage;
  int kernel = 0;         // Session::kernel()
  size_t launch = 0;      // the first of its launches that reads such a weight
  int calls = 0;          // of these
  double seconds = 0;     // of all of them
  double share = 0;       // of the plan
  double best_ratio = 1;  // of its time with tuned options to that with the heuristic's, in the layout as it is now
};

struct LayoutJob {
  std::string role;
  WeightLayout now;
  std::vector<WeightLayout> others;
  std::vector<RoleKernel> kernels;  // that with the greatest share first

  double share() const;  // of all kernels, over both plans
  double cost_now() const;
};

struct TriedLayout {
  WeightLayout layout;
  std::vector<TuneOutcome> outcomes;  // of the job's kernels; fewer where the layout was given up
  double cost = 0;
  std::string problem;  // why it was given up; else empty
};

struct TunedLayout {
  LayoutJob job;
  std::vector<TriedLayout> tried;
  int best = -1;          // of `tried`; none: the layout stays
  std::string not_tried;  // why, else empty
  bool interrupted = false;
};

// What the search works on. REQUIRES: the session has replayed all plans.
struct LayoutTuning {
  const Session& session;
  const GgufFile& file;
  const std::map<PlanKind, PlanTimes>& times;
  const MachineRates& machine;
  std::function<Status(PlanKind)> make_ready;  // puts the inputs of a plan's launches in place
};

// Roles that are worth a search, the costliest first. `kernel`: only those that one with this in its name reads.
std::vector<LayoutJob> layout_jobs(const LayoutTuning& tuning, const std::string& kernel);

// Tries each layout; `what` names the job in progress bars. An Error only where the session itself fails.
Result<TunedLayout> tune_layout(const LayoutTuning& tuning, const LayoutJob& job, double seconds,
                                const std::string& what);

// What to keep: the layout and its kernels' options. Empty where the layout stays.
std::vector<TunedEntry> entries_of(const TunedLayout& tuned);

std::string layout_plan_text(const std::vector<LayoutJob>& jobs);
std::string layout_report(const std::vector<TunedLayout>& tuned);

}  // namespace smelt
