#include "app/viz/recording.h"

#include <sys/resource.h>

#include <algorithm>

#include "app/interrupt.h"
#include "app/profile_estimate.h"
#include "app/viz/record_kernels.h"
#include "app/viz/validate.h"

namespace smelt {
namespace {

constexpr size_t kMostWorkerTimes = 300'000;  // of all runs together; the first runs have them

std::pair<int64_t, int64_t> faults_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_minflt, usage.ru_majflt};
}

// How long each worker was busy with each launch.
Json worker_times(const RecordedRun& run, size_t launches) {
  Json workers = Json::array();
  for (size_t at = 0; at + launches <= run.arrivals_ns.size(); at += launches) {
    Json times = Json::array();
    for (size_t i = 0; i < launches; ++i)
      times.push_back(std::max<int64_t>(0, run.arrivals_ns[at + i] - run.times_ns[i]));
    workers.push_back(std::move(times));
  }
  return workers;
}

// The first runs of each plan in the order of time; times in nanoseconds.
Json timeline_of(const ProfileCollector& collector, int workers) {
  Json runs = Json::array();
  size_t kept = 0;
  const int64_t start = collector.runs().empty() ? 0 : collector.runs().front().times_ns.front();
  for (const RecordedRun& run : collector.runs()) {
    const size_t launches = run.times_ns.size() - 1;
    Json times = Json::array();
    for (size_t i = 0; i < launches; ++i) times.push_back(run.times_ns[i + 1] - run.times_ns[i]);
    Json item = {{"plan", static_cast<int>(run.plan)},
                 {"tokens", run.tokens},
                 {"position", run.position},
                 {"start", run.times_ns.front() - start},
                 {"times", std::move(times)}};
    if (!run.arrivals_ns.empty() && kept + run.arrivals_ns.size() <= kMostWorkerTimes) {
      kept += run.arrivals_ns.size();
      item["workers"] = worker_times(run, launches);
    }
    runs.push_back(std::move(item));
  }
  return {{"workers", workers}, {"runs", std::move(runs)}};
}

struct Recorded {
  const KernelSet& kernels;
  const Profile& profile;
  std::string device, machine;
};

Json document(const Recorded& recorded) {
  Tables tables;
  Json plans = Json::array();
  Json segments = record_segments(recorded.kernels, tables, plans);
  Progress bar("recording", static_cast<uint64_t>(recorded.kernels.kernel_count()));
  Json kernels = record_kernels(
      recorded.kernels, tables,
      {.progress = [&](int done, int) { bar.set(static_cast<uint64_t>(done)); }, .cancel = &interrupted()});
  Json out = {{"smelt_recording", kRecordingFormat},
              {"name", recorded.profile.model},
              {"device", recorded.device},
              {"machine", recorded.machine},
              {"estimated", !recorded.profile.estimated_for.empty()},
              {"threads", recorded.profile.machine.threads},
              {"plans", std::move(plans)},
              {"profile", json_of(recorded.profile)},
              {"segments", std::move(segments)},
              {"kernels", std::move(kernels)}};
  out["strings"] = tables.strings.json();
  out["nodes"] = std::move(tables.nodes).json();
  return out;
}

Error stopped() { return {"[viz] interrupted"}; }

Result<Json> record_estimate(const ProfiledFlags& flags) {
  SMELT_TRY(listed, Listed::open(flags));
  const int64_t prompt = std::min(flags.prompt_tokens, listed.listing().layout().context);
  SMELT_TRY(profile, estimated_profile(listed.listing(), listed.machine(), prompt, flags.depth));
  profile.model = listed.name();
  const Machine& machine = listed.machine();
  Json out = document({listed.listing(), profile, machine.title, machine.name});
  if (interrupted()) return stopped();
  return out;
}

}  // namespace

OpenWatch StartLog::watch() {
  return [this](const char* stage, double) { enter(stage); };
}

void StartLog::finish() { enter(""); }

void StartLog::enter(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (!stages_.empty() && stages_.back().name == name) return;
  const auto [minor, major] = faults_so_far();
  const double now = seconds_since(start_);
  if (!stages_.empty()) {
    Stage& last = stages_.back();
    last.end = now;
    last.minor_faults = minor - last.minor_faults;
    last.major_faults = major - last.major_faults;
  }
  stages_.push_back({.name = name, .begin = now, .end = now, .minor_faults = minor, .major_faults = major});
}

// The last one is what came behind finish().
Json StartLog::json() const {
  Json out = Json::array();
  for (size_t i = 0; i + 1 < stages_.size(); ++i) {
    const Stage& s = stages_[i];
    out.push_back({{"name", s.name},
                   {"begin", s.begin},
                   {"end", s.end},
                   {"minor_faults", s.minor_faults},
                   {"major_faults", s.major_faults}});
  }
  return out;
}

Result<Json> record_model(const ProfiledFlags& flags, ProfiledModel& model) {
  if (!flags.machine.empty()) return record_estimate(flags);
  SMELT_TRY(rates, measure_device(flags.engine.device, flags.engine.threads));
  StartLog start;
  SMELT_TRY(opened, ProfiledModel::open(flags, start.watch()));
  model = std::move(opened);
  start.finish();
  ProfileRun run(flags, model, rates.threads);
  const Status done = run.run();
  if (interrupted()) return stopped();
  SMELT_CHECK(done);
  run.improve(rates);
  const Profile profile = run.collector().result(model.name, rates, run.prompts());
  const LoadedModel& loaded = model.session->loaded();
  Json out = document({loaded, profile, loaded.device().title(), loaded.device().machine().name});
  if (interrupted()) return stopped();
  const int64_t prompt = std::min(flags.prompt_tokens, loaded.layout().context);
  if (const auto estimate = estimated_profile(loaded.plans(), loaded.device().machine(), prompt, flags.depth))
    out["estimate"] = json_of(*estimate);
  out["timeline"] = timeline_of(run.collector(), loaded.device().workers());
  out["start"] = start.json();
  return out;
}

}  // namespace smelt
