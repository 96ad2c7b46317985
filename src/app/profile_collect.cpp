#include "app/profile_collect.h"

#include <algorithm>

#include "app/bench_sample.h"
#include "app/profile_words.h"
#include "runtime/devices.h"
#include "runtime/memory_nodes.h"

namespace smelt {
namespace {

// Parts of the time of a replay in which workers wait for the others to end.
struct Waiting {
  std::vector<double> of_launch;  // on average over the workers
  std::vector<double> of_worker;
  std::vector<double> workers;  // by launch: those that had tasks
};

// A worker may begin, and end, before worker 0 has looked at the clock.
double share_of(int64_t part, int64_t whole) {
  return static_cast<double>(std::clamp<int64_t>(part, 0, whole)) / static_cast<double>(std::max<int64_t>(whole, 1));
}

Waiting waiting_in(const RunTimes& run) {
  const size_t launches = run.times_ns.size() - 1, workers = run.arrivals_ns.size() / launches;
  Waiting waiting{std::vector<double>(launches), std::vector<double>(workers), std::vector<double>(launches)};
  for (size_t worker = 0; worker < workers; ++worker) {
    int64_t all = 0;
    for (size_t i = 0; i < launches; ++i) {
      const int64_t end = run.times_ns[i + 1], arrived = run.arrivals_ns[worker * launches + i], waited = end - arrived;
      if (arrived > run.times_ns[i]) ++waiting.workers[i];
      waiting.of_launch[i] += share_of(waited, end - run.times_ns[i]) / static_cast<double>(workers);
      all += std::max<int64_t>(waited, 0);
    }
    waiting.of_worker[worker] = share_of(all, run.times_ns.back() - run.times_ns.front());
  }
  return waiting;
}

}  // namespace

ProfileCollector::ProfileCollector(Session& session, int threads)
    : session_(session), kernels_(session.loaded()), threads_(threads) {
  for (PlanKind kind : kPlanKinds) {
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
    samples.waiting.clear();
  }
}

void ProfileCollector::listen(const RunTimes& run) {
  PlanSamples& samples = plans_.at(run.plan);
  if (run.times_ns.size() != samples.launches.size() + 1) return;  // the head of several rows, which nobody profiles
  runs_.push_back({run.plan,
                   run.tokens,
                   run.position,
                   {run.times_ns.begin(), run.times_ns.end()},
                   {run.arrivals_ns.begin(), run.arrivals_ns.end()}});
  Group& group = samples.groups[run.symbols];
  group.seconds.resize(samples.launches.size());
  group.waiting.resize(samples.launches.size());
  group.workers.resize(samples.launches.size());
  const Waiting waiting = waiting_in(run);
  samples.waiting.resize(waiting.of_worker.size());
  for (size_t i = 0; i < waiting.of_worker.size(); ++i) samples.waiting[i].push_back(waiting.of_worker[i]);
  for (size_t i = 0; i < samples.launches.size(); ++i) {
    group.seconds[i].push_back(static_cast<double>(run.times_ns[i + 1] - run.times_ns[i]) * 1e-9);
    group.waiting[i].push_back(waiting.of_launch[i]);
    group.workers[i].push_back(waiting.workers[i]);
  }
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
  const bool is_on_processor = is_processor(session_.loaded().device().name());
  ProfileTotals totals(kernels_, threads_, is_on_processor ? nodes_of_workers(threads_) : std::vector<int>());
  double tokens = 0;
  for (PlanKind kind : kinds) {
    const PlanSamples& samples = plans_.at(kind);
    for (const auto& [symbols, group] : samples.groups)
      totals.add(samples.launches, symbols, group.middle_position(), group.replays,
                 [&](size_t launch, const LaunchFacts&) {
                   const double seconds = sample_of(group.seconds[launch]).median;
                   return ProfileTotals::Time{seconds, seconds * sample_of(group.waiting[launch]).median,
                                              sample_of(group.workers[launch]).median};
                 });
    if (kind != PlanKind::Head) tokens += static_cast<double>(samples.tokens);
  }
  ProfiledPlan plan = totals.plan(name, tokens, replays, machine);
  // A prompt's head is a small part of it, and contexts are short or long.
  for (PlanKind kind : kinds) {
    if (!plan.waiting.empty()) break;
    for (const auto& replays : plans_.at(kind).waiting) plan.waiting.push_back(sample_of(replays).median);
  }
  return plan;
}

Profile ProfileCollector::result(const std::string& model, const MachineRates& machine, int prompts) const {
  Profile profile{.model = model, .machine = machine};
  const std::initializer_list<PlanKind> decodes = {PlanKind::Decode, PlanKind::MiddleDecode, PlanKind::LongDecode,
                                                   PlanKind::WideDecode};
  int replays = 0;
  for (PlanKind kind : decodes) replays += plans_.at(kind).replays;
  if (replays > 0) profile.plans.push_back(plan_of("decode", decodes, replays, machine));
  const int runs = plans_.at(PlanKind::Prefill).replays + plans_.at(PlanKind::LongPrefill).replays;
  if (prompts > 0 && runs > 0)
    profile.plans.push_back(
        plan_of("prefill", {PlanKind::Prefill, PlanKind::LongPrefill, PlanKind::Head}, prompts, machine));
  return profile;
}

}  // namespace smelt
