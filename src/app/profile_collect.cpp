#include "app/profile_collect.h"

#include <algorithm>

#include "app/bench_sample.h"
#include "app/profile_advice.h"
#include "app/profile_words.h"

namespace smelt {
namespace {

std::string options_text(const KernelOpts& opts) {
  std::string text;
  for (const auto& nest : opts)
    text += (&nest == &opts.front() ? "" : " | ") + (nest.empty() ? "none" : to_string(nest));
  return text;
}

// What the code of a kernel does beyond what its formula asks for, as the advisor wants it.
void add_execution(const PlanLaunch& launch, const KernelCost& cost, const Execution& execution,
                   ProfiledKernel& k) {
  double loaded = 0, needed = 0, gathers = 0;  // of weights
  for (size_t i = 0;
       i < std::min({launch.buffers.size(), cost.buffers.size(), execution.of_argument.size()});
       ++i) {
    if (!launch.buffers[i].is_weight) continue;
    loaded += execution.of_argument[i].bytes;
    gathers += execution.of_argument[i].gathers;
    needed += cost.buffers[i].read;
  }
  const double all = std::max(execution.loads.total(), 1.0);
  k.gather_share = (execution.loads.gathers - gathers) / all;
  k.weight_gather_share = gathers / all;
  k.weight_passes = needed > cost.read / 2 ? loaded / needed : 0;
  k.float_passes =
      execution.is_exact && cost.float_ops > 0 ? execution.float_ops / cost.float_ops : 0;
  k.serial_share = execution.serial_share;
  k.serial_cycles = execution.serial_cycles;
  k.serial_instructions = execution.serial_instructions;
}

// The middle of the positions that a replay's tokens have, for every buffer that holds positions.
BufferContents positions_of(const PlanLaunch& launch, int64_t position) {
  BufferContents out;
  for (size_t i = 0; i < launch.buffers.size(); ++i)
    if (launch.buffers[i].name == "positions") out[static_cast<int64_t>(i)] = position;
  return out;
}

// Many tokens choose among the same experts: no more than all of a weight is read.
KernelCost within_weights(KernelCost cost, const PlanLaunch& launch) {
  for (size_t i = 0; i < std::min(cost.buffers.size(), launch.buffers.size()); ++i) {
    double& read = cost.buffers[i].read;
    const double all = static_cast<double>(launch.buffers[i].bytes);
    if (!launch.buffers[i].is_weight || read <= all) continue;
    cost.read += all - read;
    read = all;
  }
  return cost;
}

ProfiledPart& part_named(std::vector<ProfiledPart>& parts, const std::string& name) {
  const auto found = std::find_if(parts.begin(), parts.end(),
                                  [&](const ProfiledPart& p) { return p.name == name; });
  return found != parts.end() ? *found : parts.emplace_back(ProfiledPart{.name = name});
}

void add_part(ProfiledPart& part, const KernelCost& cost, double times, double seconds) {
  part.seconds += seconds;
  part.bytes += cost.bytes() * times;
  part.calls += times;
}

}  // namespace

// Sums over all replays, before they are divided by their number.
struct ProfileCollector::Totals {
  std::map<int, ProfiledKernel> kernels;                  // by kernel number
  std::map<int, std::map<std::string, double>> stage_of;  // of each kernel: seconds by stage
  std::map<int, double> most_operations;                  // of the group whose shape is told
  std::vector<ProfiledPart> stages, layers;
};

ProfileCollector::ProfileCollector(Session& session, int threads)
    : session_(session), threads_(threads) {
  for (PlanKind kind : {PlanKind::Decode, PlanKind::Prefill, PlanKind::Head}) {
    PlanSamples& samples = plans_[kind];
    samples.launches = session.launches(kind);
    std::string stage;
    for (const PlanLaunch& launch : samples.launches)
      samples.stages.push_back(stage = stage_of(launch, stage));
  }
  session.observe([this](const RunTimes& run) { listen(run); });
}

ProfileCollector::~ProfileCollector() { session_.observe({}); }

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
  if (run.times_ns.size() != samples.launches.size() + 1)
    return;  // the head of several rows, which nobody profiles
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
  const Ref tree = session_.kernel(l.kernel).tree;
  return launch_in_words(l, tree, cost_of(tree));
}

std::string ProfileCollector::stage(PlanKind plan, size_t launch) const {
  return plans_.at(plan).stages[launch];
}

ProfileCollector::Facts ProfileCollector::facts_of(const PlanLaunch& launch,
                                                   const SymbolValues& symbols,
                                                   int64_t position) const {
  const KernelDescription k = session_.kernel(launch.kernel);
  return {within_weights(cost_of(k.tree, symbols, positions_of(launch, position)), launch),
          shape_of(k.tree, k.opts, symbols),
          execution_of(session_.listing(launch.kernel, false).program, symbols, threads_)};
}

void ProfileCollector::add_kernel(const PlanLaunch& launch, const Facts& facts, double times,
                                  double seconds, Totals& totals) const {
  ProfiledKernel& k = totals.kernels[launch.kernel];
  if (k.name.empty()) {
    const KernelDescription description = session_.kernel(launch.kernel);
    k.name = description.name;
    k.options = options_text(description.opts);
    k.what = launch_in_words(launch, description.tree, facts.cost);
    k.lines = lines_in_words(launch);
  }
  k.calls += times;
  k.seconds += seconds;
  k.read += facts.cost.read * times;
  k.written += facts.cost.written * times;
  k.float_ops += facts.cost.float_ops * times;
  k.int_ops += facts.cost.int_ops * times;
  double& most = totals.most_operations[launch.kernel];
  if (facts.cost.operations() < most) return;
  most = facts.cost.operations();
  k.tasks = facts.shape.tasks;
  k.scalar_share = facts.shape.scalar_share;
  add_execution(launch, facts.cost, facts.execution, k);
}

void ProfileCollector::add(const PlanSamples& samples, Totals& totals) const {
  for (const auto& [symbols, group] : samples.groups) {
    std::map<int, Facts> facts;  // by kernel
    for (size_t i = 0; i < samples.launches.size(); ++i) {
      const PlanLaunch& launch = samples.launches[i];
      if (!facts.contains(launch.kernel))
        facts[launch.kernel] = facts_of(launch, symbols, group.middle_position());
      const Facts& f = facts[launch.kernel];
      const double times = group.replays, seconds = sample_of(group.seconds[i]).median * times;
      add_kernel(launch, f, times, seconds, totals);
      totals.stage_of[launch.kernel][samples.stages[i]] += seconds;
      add_part(part_named(totals.stages, samples.stages[i]), f.cost, times, seconds);
      if (launch.layer >= 0)
        add_part(part_named(totals.layers, "layer " + std::to_string(launch.layer)), f.cost, times,
                 seconds);
    }
  }
}

ProfiledPlan ProfileCollector::plan_of(const std::string& name,
                                       std::initializer_list<PlanKind> kinds, int replays,
                                       const MachineRates& machine) const {
  Totals totals;
  ProfiledPlan plan{.name = name, .runs = replays};
  const double share = replays > 0 ? 1.0 / replays : 0;
  for (PlanKind kind : kinds) {
    add(plans_.at(kind), totals);
    if (kind != PlanKind::Head) plan.tokens += static_cast<double>(plans_.at(kind).tokens) * share;
  }
  for (auto& [number, k] : totals.kernels) {
    const auto& stages = totals.stage_of[number];
    k.stage = std::max_element(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
                return a.second < b.second;
              })->first;
    for (double* value : {&k.calls, &k.seconds, &k.read, &k.written, &k.float_ops, &k.int_ops})
      *value *= share;
    plan.kernels.push_back(k);
  }
  for (std::vector<ProfiledPart>* parts : {&totals.stages, &totals.layers})
    for (ProfiledPart& p : *parts)
      for (double* value : {&p.seconds, &p.bytes, &p.calls}) *value *= share;
  plan.stages = std::move(totals.stages);
  plan.layers = std::move(totals.layers);
  std::stable_sort(plan.kernels.begin(), plan.kernels.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  const double seconds = plan.seconds();
  for (ProfiledKernel& k : plan.kernels) k.advice = advice_on(k, machine, seconds);
  return plan;
}

Profile ProfileCollector::result(const std::string& model, const MachineRates& machine,
                                 int prompts) const {
  Profile profile{.model = model, .machine = machine};
  if (const int replays = plans_.at(PlanKind::Decode).replays; replays > 0)
    profile.plans.push_back(plan_of("decode", {PlanKind::Decode}, replays, machine));
  if (prompts > 0 && plans_.at(PlanKind::Prefill).replays > 0)
    profile.plans.push_back(
        plan_of("prefill", {PlanKind::Prefill, PlanKind::Head}, prompts, machine));
  return profile;
}

}  // namespace smelt
