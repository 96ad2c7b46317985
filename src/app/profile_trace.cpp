#include "app/profile_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

// Rows of the timeline; behind them one for each worker.
constexpr int kReplays = 1, kLaunches = 2, kFirstWorker = 3;

Json row_name(int row, const std::string& name) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", row}, {"args", {{"name", name}}}};
}

std::string replay_name(const RecordedRun& run) {
  switch (run.plan) {
    case PlanKind::Decode:
    case PlanKind::MiddleDecode:
    case PlanKind::LongDecode:
    case PlanKind::WideDecode: return "token at position " + std::to_string(run.position);
    case PlanKind::Prefill:
    case PlanKind::LongPrefill:
      return "prompt, " + std::to_string(run.tokens) + " tokens from position " + std::to_string(run.position);
    case PlanKind::Head: return "logits of the prompt";
  }
  return "";
}

Json event(const std::string& name, const std::string& category, int row, int64_t begin_ns, int64_t end_ns, Json args) {
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"pid", 1},
          {"tid", row},
          {"ts", static_cast<double>(begin_ns) / 1e3},
          {"dur", static_cast<double>(end_ns - begin_ns) / 1e3},
          {"args", std::move(args)}};
}

// What does not change from replay to replay.
struct LaunchText {
  std::string name, stage, what, kernel;
};

std::vector<LaunchText> texts_of(const ProfileCollector& collector, const Session& session, PlanKind plan) {
  std::vector<LaunchText> out;
  std::map<int, std::string> words;  // one kernel's launches differ in their layer only, mostly
  const auto& launches = collector.launches(plan);
  for (size_t i = 0; i < launches.size(); ++i) {
    std::string& what = words[launches[i].kernel];
    if (what.empty()) what = collector.words(plan, i);
    out.push_back({what.substr(0, what.find(" (")), collector.stage(plan, i), what,
                   session.loaded().kernel(launches[i].kernel).name});
  }
  return out;
}

size_t workers_of(const RecordedRun& run) { return run.arrivals_ns.size() / (run.times_ns.size() - 1); }

// What each worker did in a replay: where it ends before the launch does, it waits for the others.
void add_workers(Json& events, const RecordedRun& run, const std::vector<LaunchText>& texts, int64_t start) {
  const size_t launches = run.times_ns.size() - 1;
  for (size_t worker = 0; worker < workers_of(run); ++worker)
    for (size_t i = 0; i < launches; ++i) {
      const int64_t begin = run.times_ns[i], end = run.arrivals_ns[worker * launches + i];
      if (end > begin)
        events.push_back(event(texts[i].name, texts[i].stage, kFirstWorker + static_cast<int>(worker), begin - start,
                               end - start, Json::object()));
    }
}

void name_workers(Json& events, const ProfileCollector& collector) {
  size_t most = 0;
  for (const RecordedRun& run : collector.runs()) most = std::max(most, workers_of(run));
  for (size_t worker = 0; worker < most; ++worker)
    events.push_back(row_name(kFirstWorker + static_cast<int>(worker), "worker " + std::to_string(worker)));
}

}  // namespace

std::string chrome_trace(const ProfileCollector& collector, const Session& session) {
  Json events = {row_name(kReplays, "replays"), row_name(kLaunches, "launches")};
  std::map<PlanKind, std::vector<LaunchText>> texts;
  for (PlanKind plan : kPlanKinds) texts[plan] = texts_of(collector, session, plan);
  name_workers(events, collector);
  const int64_t start = collector.runs().empty() ? 0 : collector.runs().front().times_ns.front();
  std::set<PlanKind> with_workers;  // the first replay of each plan: a GPU has many
  for (const RecordedRun& run : collector.runs()) {
    events.push_back(event(replay_name(run), "replay", kReplays, run.times_ns.front() - start,
                           run.times_ns.back() - start, {{"tokens", run.tokens}, {"position", run.position}}));
    if (with_workers.insert(run.plan).second) add_workers(events, run, texts[run.plan], start);
    for (size_t i = 0; i + 1 < run.times_ns.size(); ++i) {
      const LaunchText& text = texts[run.plan][i];
      const int64_t layer = collector.launches(run.plan)[i].layer;
      Json args = {{"what", text.what}, {"kernel", text.kernel}};
      if (layer >= 0) args["layer"] = layer;
      events.push_back(event(text.name, text.stage, kLaunches, run.times_ns[i] - start, run.times_ns[i + 1] - start,
                             std::move(args)));
    }
  }
  return Json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace smelt
