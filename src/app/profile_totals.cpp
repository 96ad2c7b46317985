#include "app/profile_totals.h"

#include <algorithm>

#include "app/profile_advice.h"
#include "app/profile_nodes.h"
#include "app/profile_words.h"
#include "engine/launch_cost.h"

namespace smelt {
namespace {

std::string options_text(const KernelOpts& opts) {
  std::string text;
  for (const auto& nest : opts)
    text += (&nest == &opts.front() ? "" : " | ") + (nest.empty() ? "none" : to_string(nest));
  return text;
}

// What the code of a kernel does beyond what its formula asks for, as the advisor wants it.
void add_execution(const PlanLaunch& launch, const KernelCost& cost, const Execution& execution, ProfiledKernel& k) {
  double loaded = 0, needed = 0, gathers = 0;  // of weights
  for (size_t i = 0; i < std::min({launch.buffers.size(), cost.buffers.size(), execution.of_argument.size()}); ++i) {
    if (!launch.buffers[i].is_weight) continue;
    loaded += execution.of_argument[i].bytes;
    gathers += execution.of_argument[i].gathers;
    needed += cost.buffers[i].read;
  }
  const double all = std::max(execution.loads.total(), 1.0);
  k.gather_share = (execution.loads.gathers - gathers) / all;
  k.weight_gather_share = gathers / all;
  k.weight_passes = needed > cost.read / 2 ? loaded / needed : 0;
  k.float_passes = execution.is_exact && cost.float_ops > 0 ? execution.float_ops / cost.float_ops : 0;
  k.serial_share = execution.serial_share;
  k.serial_cycles = execution.serial_cycles;
  k.serial_instructions = execution.serial_instructions;
}

bool multiplies_matrices(const Program& program) {
  return std::any_of(program.code.begin(), program.code.end(), [](const auto& i) { return i.kind == Inst::MatrixDot; });
}

ProfiledPart& part_named(std::vector<ProfiledPart>& parts, const std::string& name) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const ProfiledPart& p) { return p.name == name; });
  return found != parts.end() ? *found : parts.emplace_back(ProfiledPart{.name = name});
}

void add_part(ProfiledPart& part, const KernelCost& cost, double times, const ProfileTotals::Time& time) {
  part.seconds += time.seconds * times;
  part.waiting += time.waiting * times;
  part.bytes += cost.bytes() * times;
  part.calls += times;
}

}  // namespace

std::vector<std::string> stages_of(const std::vector<PlanLaunch>& launches) {
  std::vector<std::string> stages;
  std::string stage;
  for (const PlanLaunch& launch : launches) stages.push_back(stage = stage_of(launch, stage));
  return stages;
}

LaunchFacts ProfileTotals::facts_of(const PlanLaunch& launch, const SymbolValues& symbols, int64_t position) const {
  const KernelDescription k = kernels_.kernel(launch.kernel);
  LaunchFacts facts{.cost = launch_cost(launch, k.tree, symbols, position),
                    .shape = shape_of(k.tree, k.opts, k.machine, symbols),
                    .program = kernels_.listing(launch.kernel, false).program};
  facts.execution = execution_of(facts.program, symbols, threads_);
  return facts;
}

void ProfileTotals::add_kernel(const PlanLaunch& launch, const LaunchFacts& facts, double times, const Time& time) {
  ProfiledKernel& k = by_number_[launch.kernel];
  if (k.name.empty()) {
    const KernelDescription description = kernels_.kernel(launch.kernel);
    k.name = description.name;
    k.options = options_text(description.opts);
    k.what = launch_in_words(launch, description.tree, facts.cost);
    k.lines = lines_in_words(launch);
    k.uses_unit = multiplies_matrices(facts.program) && unit_for_bytes(description.machine);
  }
  k.calls += times;
  k.seconds += time.seconds * times;
  k.waiting += time.waiting * times;
  k.workers += time.workers * times;
  k.read += facts.cost.read * times;
  k.written += facts.cost.written * times;
  k.float_ops += facts.cost.float_ops * times;
  k.int_ops += facts.cost.int_ops * times;
  k.byte_ops += facts.cost.byte_ops * times;
  double& most = most_operations_[launch.kernel];
  if (facts.cost.operations() < most) return;
  most = facts.cost.operations();
  k.tasks = facts.shape.tasks;
  k.scalar_share = facts.shape.scalar_share;
  k.remote_share = remote_share(launch, facts.cost, nodes_);
  add_execution(launch, facts.cost, facts.execution, k);
}

void ProfileTotals::add(const std::vector<PlanLaunch>& launches, const SymbolValues& symbols, int64_t position,
                        double times, const TimeOf& time_of) {
  const std::vector<std::string> stages = stages_of(launches);
  std::map<int, LaunchFacts> known;  // by kernel
  for (size_t i = 0; i < launches.size(); ++i) {
    const PlanLaunch& launch = launches[i];
    if (!known.contains(launch.kernel)) known[launch.kernel] = facts_of(launch, symbols, position);
    const LaunchFacts& facts = known[launch.kernel];
    const Time time = time_of(i, facts);
    add_kernel(launch, facts, times, time);
    stage_of_[launch.kernel][stages[i]] += time.seconds * times;
    add_part(part_named(stages_, stages[i]), facts.cost, times, time);
    if (launch.layer >= 0)
      add_part(part_named(layers_, "layer " + std::to_string(launch.layer)), facts.cost, times, time);
  }
}

ProfiledPlan ProfileTotals::plan(const std::string& name, double tokens, int replays,
                                 const MachineRates& machine) const {
  const double share = replays > 0 ? 1.0 / replays : 0;
  ProfiledPlan plan{.name = name, .tokens = tokens * share, .runs = replays, .stages = stages_, .layers = layers_};
  for (const auto& [number, totals] : by_number_) {
    ProfiledKernel k = totals;
    const auto& stages = stage_of_.at(number);
    k.stage = std::max_element(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
                return a.second < b.second;
              })->first;
    for (double* value :
         {&k.calls, &k.seconds, &k.waiting, &k.workers, &k.read, &k.written, &k.float_ops, &k.int_ops, &k.byte_ops})
      *value *= share;
    plan.kernels.push_back(std::move(k));
  }
  for (std::vector<ProfiledPart>* parts : {&plan.stages, &plan.layers})
    for (ProfiledPart& p : *parts)
      for (double* value : {&p.seconds, &p.waiting, &p.bytes, &p.calls}) *value *= share;
  std::stable_sort(plan.kernels.begin(), plan.kernels.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  const double seconds = plan.seconds();
  for (ProfiledKernel& k : plan.kernels) k.advice = advice_on(k, machine, seconds);
  return plan;
}

}  // namespace smelt
