#include "app/profile_estimate.h"

#include <algorithm>

#include "app/profile_totals.h"
#include "engine/tune_estimate.h"

namespace smelt {
namespace {

// What memory gives to a launch, of whose processors some may have no task; 0: not known.
double bandwidth_of(const Machine& machine, int64_t tasks) {
  const auto busy = static_cast<double>(std::clamp<int64_t>(tasks, 1, machine.processors));
  const double reach = busy * machine.processor_bandwidth;
  return reach > 0 ? std::min(machine.bandwidth, reach) : machine.bandwidth;
}

class Estimate {
 public:
  Estimate(const ModelPlans& listing, const Machine& machine)
      : listing_(listing), machine_(machine), rates_(described_rates(machine)) {}

  ProfiledPlan decode(int64_t depth) const {
    ProfileTotals totals(listing_, rates_.threads);
    const int64_t sequences = listing_.layout().sequences;
    const int64_t batch = int64_t{1} << listing_.decode_number();
    add(totals, listing_.decode_kind(batch, depth + 1), 1, depth);
    return totals.plan("decode", static_cast<double>(sequences), 1, rates_);
  }

  // Chunk by chunk, as a session reads it.
  ProfiledPlan prefill(int64_t tokens) const {
    ProfileTotals totals(listing_, rates_.threads);
    for (int64_t done = 0; done < tokens; done += listing_.layout().prefill_tokens) {
      const int64_t chunk = std::min(listing_.layout().prefill_tokens, tokens - done);
      add(totals, listing_.is_long_prompt(chunk) ? PlanKind::LongPrefill : PlanKind::Prefill, chunk, done);
    }
    add(totals, PlanKind::Head, 1, tokens - 1);
    return totals.plan("prefill", static_cast<double>(tokens), 1, rates_);
  }

  const MachineRates& rates() const { return rates_; }

 private:
  void add(ProfileTotals& totals, PlanKind plan, int64_t tokens, int64_t position) const {
    const SymbolValues symbols = listing_.symbols(tokens, position);
    totals.add(listing_.launches(plan), symbols, position + (tokens - 1) / 2, 1,
               [&](size_t, const LaunchFacts& facts) { return ProfileTotals::Time{seconds_of(facts, symbols)}; });
  }

  double seconds_of(const LaunchFacts& facts, const SymbolValues& symbols) const {
    const ProgramEstimate e = estimate({.program = facts.program,
                                        .machine = machine_,
                                        .workers = rates_.threads,
                                        .symbols = symbols,
                                        .tasks = facts.shape.tasks,
                                        .bytes = facts.cost.bytes(),
                                        .bytes_per_second = bandwidth_of(machine_, facts.shape.tasks)});
    return rates_.barrier_seconds + e.seconds;
  }

  const ModelPlans& listing_;
  const Machine& machine_;
  const MachineRates rates_;
};

}  // namespace

Result<Profile> estimated_profile(const ModelPlans& listing, const Machine& machine, int64_t prompt_tokens,
                                  int64_t depth) {
  if (std::max(prompt_tokens, depth + 1) > listing.layout().context)
    return Error{"[profile] " + std::to_string(std::max(prompt_tokens, depth + 1)) +
                 " tokens do not fit a context of " + std::to_string(listing.layout().context) +
                 "; make it longer with -c, or -d and the prompt shorter"};
  const Estimate estimate(listing, machine);
  Profile profile{.estimated_for = machine.name + " (" + machine.title + ")", .machine = estimate.rates()};
  profile.plans.push_back(estimate.decode(depth));
  if (prompt_tokens > 1) profile.plans.push_back(estimate.prefill(prompt_tokens));
  return profile;
}

}  // namespace smelt
