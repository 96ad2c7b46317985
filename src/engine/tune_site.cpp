#include "engine/tune_site.h"

#include <algorithm>

#include "base/ensure.h"
#include "engine/session.h"

namespace smelt {
namespace {

// Whether the inputs of one launch serve the other: what lies in the arena lies at the same place.
bool shares_inputs(const PlanLaunch& a, const PlanLaunch& b) {
  for (size_t i = 0; i < a.buffers.size(); ++i)
    if (a.buffers[i].name.starts_with("temp") && a.launch.buffers[i] != b.launch.buffers[i]) return false;
  return true;
}

// The largest set of a kernel's launches that share their inputs, as positions in the plan.
std::vector<size_t> launches_of(const std::vector<PlanLaunch>& plan, int kernel) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].kernel != kernel) continue;
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& g) { return shares_inputs(plan[g.front()], plan[i]); });
    group != groups.end() ? group->push_back(i) : groups.push_back({i});
  }
  ENSURE(!groups.empty(), "a kernel that the plan does not launch");
  return *std::max_element(groups.begin(), groups.end(),
                           [](const auto& a, const auto& b) { return a.size() < b.size(); });
}

}  // namespace

SymbolValues TuneSite::symbol_values() const {
  SymbolValues values;
  for (size_t i = 0; i < symbol_names.size(); ++i) values[symbol_names[i]] = symbols[i];
  return values;
}

struct PlanSites::State {
  const Session& session;
  std::vector<PlanLaunch> plan;
  std::vector<Launch> launches;
  SymbolValues symbols;
  Device& device;
  double bytes_between;
};

PlanSites::PlanSites(const Session& session, PlanKind plan, const SymbolValues& symbols, Device& device,
                     double bytes_between)
    : state_(new State{session, session.loaded().launches(plan), {}, symbols, device, bytes_between}) {
  for (const PlanLaunch& l : state_->plan) state_->launches.push_back(l.launch);
}

PlanSites::~PlanSites() = default;

TuneSite PlanSites::site(int kernel) const { return site_of(launches_of(state_->plan, kernel)); }

TuneSite PlanSites::site_of_launch(size_t launch) const { return site_of({launch}); }

// Of launches of one kernel that share their inputs.
TuneSite PlanSites::site_of(const std::vector<size_t>& launches) const {
  State& state = *state_;
  const int kernel = state.plan[launches.front()].kernel;
  const KernelDescription description = state.session.loaded().kernel(kernel);
  TuneSite site{.name = description.name,
                .tree = description.tree,
                .symbol_names = state.session.loaded().listing(kernel, false).program.symbols,
                .bytes_between = state.bytes_between};
  for (const std::string& name : site.symbol_names) site.symbols.push_back(state.symbols.at(name));
  for (const LaunchBuffer& b : state.plan[launches.front()].buffers) site.buffers.push_back({b.bytes, b.is_weight});
  for (size_t i : launches) site.launches.push_back(state.launches[i].buffers);
  site.prepare = [&state, symbols = site.symbols, count = launches.front()]() -> Status {
    SMELT_TRY(plan, state.device.capture(std::span(state.launches).first(count)));
    return state.device.run(*plan, symbols);
  };
  return site;
}

}  // namespace smelt
