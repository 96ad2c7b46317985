#include "app/profile_collect.h"

#include <algorithm>

#include "app/bench_sample.h"
#include "app/profile_words.h"

namespace smelt {

ProfileCollector::ProfileCollector(Session& session, int threads)
    : session_(session), kernels_(session.loaded()), threads_(threads) {
  for (PlanKind kind : {PlanKind::Decode, PlanKind::Prefill, PlanKind::Head}) {
    PlanSamples& samples = plans_[kind];
    samples.launches = session.loaded().launches(kind);
    samples.stages = stages_of(samples.launches);
  }
  session.loaded().observe([this](const RunTimes& run) { listen(run); });
}

ProfileCollector::~ProfileCollector() { session_.loaded().observe({}); }

void ProfileCollector::forget() {
  runs_.clear();
  for (auto& [kind, samples] : plans_) {
    samples.groups.clear();
    samples.replays = 0;
    samples.tokens = 0;
  }
}

void ProfileCollector::listen(const RunTimes& run) {
  PlanSamples& samples = plans_.at(run.plan);
  if (run.times_ns.size() != samples.launches.size() + 1) return;  // the head of several rows, which nobody profiles
  runs_.push_back({run.plan, run.tokens, run.position, {run.times_ns.begin(), run.times_ns.end()}});
  Group& group = samples.groups[run.symbols];
  group.seconds.resize(samples.launches.size());
  for (size_t i = 0; i < samples.launches.size(); ++i)
    group.seconds[i].push_back(static_cast<double>(run.times_ns[i + 1] - run.times_ns[i]) * 1e-9);
  group.positions += static_cast<double>(run.position) + static_cast<double>(run.tokens - 1) / 2;
  ++group.replays;
  ++samples.replays;
  samples.tokens += run.tokens;
}

std::string ProfileCollector::words(PlanKind plan, size_t launch) const {
  const PlanLaunch& l = plans_.at(plan).launches[launch];
  const Ref tree = kernels_.kernel(l.kernel).tree;
  return launch_in_words(l, tree, cost_of(tree));
}

std::string ProfileCollector::stage(PlanKind plan, size_t launch) const { return plans_.at(plan).stages[launch]; }

ProfiledPlan ProfileCollector::plan_of(const std::string& name, std::initializer_list<PlanKind> kinds, int replays,
                                       const MachineRates& machine) const {
  ProfileTotals totals(kernels_, threads_);
  double tokens = 0;
  for (PlanKind kind : kinds) {
    const PlanSamples& samples = plans_.at(kind);
    for (const auto& [symbols, group] : samples.groups)
      totals.add(samples.launches, symbols, group.middle_position(), group.replays,
                 [&](size_t launch, const LaunchFacts&) { return sample_of(group.seconds[launch]).median; });
    if (kind != PlanKind::Head) tokens += static_cast<double>(samples.tokens);
  }
  return totals.plan(name, tokens, replays, machine);
}

Profile ProfileCollector::result(const std::string& model, const MachineRates& machine, int prompts) const {
  Profile profile{.model = model, .machine = machine};
  if (const int replays = plans_.at(PlanKind::Decode).replays; replays > 0)
    profile.plans.push_back(plan_of("decode", {PlanKind::Decode}, replays, machine));
  if (prompts > 0 && plans_.at(PlanKind::Prefill).replays > 0)
    profile.plans.push_back(plan_of("prefill", {PlanKind::Prefill, PlanKind::Head}, prompts, machine));
  return profile;
}

}  // namespace smelt
