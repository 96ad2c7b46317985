#include "app/profile_trace.h"

#include <nlohmann/json.hpp>

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

// Rows of the timeline.
constexpr int kReplays = 1, kLaunches = 2;

Json row_name(int row, const char* name) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", row}, {"args", {{"name", name}}}};
}

std::string replay_name(const RecordedRun& run) {
  switch (run.plan) {
    case PlanKind::Decode: return "token at position " + std::to_string(run.position);
    case PlanKind::Prefill:
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

}  // namespace

std::string chrome_trace(const ProfileCollector& collector, const Session& session) {
  Json events = {row_name(kReplays, "replays"), row_name(kLaunches, "launches")};
  std::map<PlanKind, std::vector<LaunchText>> texts;
  for (PlanKind plan : {PlanKind::Decode, PlanKind::Prefill, PlanKind::Head})
    texts[plan] = texts_of(collector, session, plan);
  const int64_t start = collector.runs().empty() ? 0 : collector.runs().front().times_ns.front();
  for (const RecordedRun& run : collector.runs()) {
    events.push_back(event(replay_name(run), "replay", kReplays, run.times_ns.front() - start,
                           run.times_ns.back() - start, {{"tokens", run.tokens}, {"position", run.position}}));
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
