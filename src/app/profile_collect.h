// Runs a session and adds up what its launches cost.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "app/profile_totals.h"
#include "engine/session.h"

namespace smelt {

// One replay of a plan as it happened, for the timeline.
struct RecordedRun {
  PlanKind plan;
  int64_t tokens, position;
  std::vector<int64_t> times_ns;
  std::vector<int64_t> arrivals_ns;  // as in RunTimes
};

class ProfileCollector {
 public:
  // Listens to the session from now on. REQUIRES: the session outlives it.
  ProfileCollector(Session& session, int threads);
  ~ProfileCollector();
  ProfileCollector(const ProfileCollector&) = delete;
  ProfileCollector& operator=(const ProfileCollector&) = delete;

  void forget();  // what was heard so far: a warm-up

  // `prompts`: how many times a prompt was read; its prefill and head replays are shared out among them.
  Profile result(const std::string& model, const MachineRates& machine, int prompts) const;

  const std::vector<RecordedRun>& runs() const { return runs_; }
  const std::vector<PlanLaunch>& launches(PlanKind plan) const { return plans_.at(plan).launches; }
  std::string words(PlanKind plan, size_t launch) const;
  std::string stage(PlanKind plan, size_t launch) const;

 private:
  // Replays with the same symbols do the same work; the median of each launch is taken over them.
  struct Group {
    int replays = 0;
    double positions = 0;                      // of the middle token, added up
    std::vector<std::vector<double>> seconds;  // by launch
    std::vector<std::vector<double>> waiting;  // by launch: shares of these
    std::vector<std::vector<double>> workers;  // by launch: how many had tasks
    int64_t middle_position() const { return static_cast<int64_t>(positions / std::max(replays, 1)); }
  };
  struct PlanSamples {
    std::vector<PlanLaunch> launches;
    std::vector<std::string> stages;  // by launch
    std::map<SymbolValues, Group> groups;
    int replays = 0;
    int64_t tokens = 0;
    std::vector<std::vector<double>> waiting{};  // by worker: of each replay the part in which it waited
  };

  void listen(const RunTimes& run);
  ProfiledPlan plan_of(const std::string& name, std::initializer_list<PlanKind> kinds, int replays,
                       const MachineRates& machine) const;

  Session& session_;
  const KernelSet& kernels_;
  const int threads_;
  std::map<PlanKind, PlanSamples> plans_;
  std::vector<RecordedRun> runs_;
};

}  // namespace smelt
