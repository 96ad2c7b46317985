#include "app/viz/trace.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "app/viz/load.h"
#include "app/viz/tables.h"

namespace smelt {
namespace {

struct Event {
  std::string name, category, detail;
  double begin = 0, time = 0;  // microseconds
};

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

// What belongs to an event besides its name, a line each.
std::string detail_of(const Json& event) {
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) return "";
  std::string out;
  for (const auto& [key, value] : args->items())
    out += (out.empty() ? "" : "\n") + key + ": " + (value.is_string() ? value.get<std::string>() : value.dump());
  return out;
}

class Tracks {
 public:
  void add(const Json& event) {
    if (!event.is_object()) return;
    const std::pair thread(number_at(event, "pid"), number_at(event, "tid"));
    const std::string phase = text_at(event, "ph");
    if (phase == "M" && text_at(event, "name") == "thread_name" && event.contains("args") && event["args"].is_object())
      names_[thread] = text_at(event["args"], "name");
    if (phase != "X") return;
    events_[thread].push_back({.name = text_at(event, "name"),
                               .category = text_at(event, "cat"),
                               .detail = detail_of(event),
                               .begin = number_at(event, "ts"),
                               .time = number_at(event, "dur")});
  }

  bool empty() const { return events_.empty(); }

  // [name, category, begin, nanoseconds, detail], those that begin first first, and of these the longest.
  Json json(StringTable& strings) {
    double first = events_.begin()->second.front().begin;
    for (const auto& [thread, events] : events_)
      for (const Event& e : events) first = std::min(first, e.begin);
    Json out = Json::array();
    for (auto& [thread, events] : events_) {
      std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.time > b.time;
      });
      Json rows = Json::array();
      for (const Event& e : events)
        rows.push_back({strings.number(e.name), strings.number(e.category), (e.begin - first) * 1e3, e.time * 1e3,
                        strings.number(e.detail)});
      out.push_back({{"name", names_[thread]}, {"events", std::move(rows)}});
    }
    return out;
  }

 private:
  using Thread = std::pair<double, double>;
  std::map<Thread, std::string> names_;
  std::map<Thread, std::vector<Event>> events_;
};

}  // namespace

bool is_trace(const Json& json) { return json.is_object() && json.contains("traceEvents"); }

Result<Json> recording_of_trace(const Json& json) {
  const Json& events = json["traceEvents"];
  if (!events.is_array()) return Error{"traceEvents: is no list"};
  Tracks tracks;
  for (const Json& event : events) tracks.add(event);
  if (tracks.empty()) return Error{"no event in it has a duration"};
  StringTable strings;
  Json out = empty_recording("a trace", "", "", 1);
  out["tracks"] = tracks.json(strings);
  out["strings"] = strings.json();
  return out;
}

}  // namespace smelt
