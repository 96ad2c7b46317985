#include "app/viz/validate.h"

#include <cmath>
#include <functional>

#include "app/profile_data.h"
#include "base/file.h"
#include "base/printable.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostNodes = 500'000, kMostTexts = 1'000'000, kMostKernels = 20'000, kMostItems = 1'000'000;
constexpr int64_t kMostWorkers = 4096;
constexpr double kLargest = 9007199254740992.0;  // whole numbers beyond are no longer exact in a page
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

struct Wrong {
  std::string what;
};

// A value and its place in the document.
class Value {
 public:
  Value(const Json& json, std::string at) : json_(json), at_(std::move(at)) {}

  [[noreturn]] void fail(const std::string& what) const { throw Wrong{(at_.empty() ? "" : at_ + ": ") + what}; }

  const Json& json() const { return json_; }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  Value operator[](const char* key) const {
    if (!json_.is_object()) fail("is no object");
    const auto found = json_.find(key);
    if (found == json_.end()) fail("has no \"" + std::string(key) + "\"");
    return {*found, at_.empty() ? key : at_ + "." + key};
  }
  Value operator[](size_t i) const { return {json_[i], at_ + "[" + std::to_string(i) + "]"}; }

  void text() const {
    if (!json_.is_string()) fail("is no text");
  }
  void flag() const {
    if (!json_.is_boolean()) fail("is neither true nor false");
  }
  double number(double least, double most) const {
    if (!json_.is_number()) fail("is no number");
    const double value = json_.get<double>();
    if (!std::isfinite(value) || value < least || value > most) fail(json_.dump() + " is out of range");
    return value;
  }
  int64_t whole(int64_t least, int64_t most) const {
    if (!json_.is_number_integer()) fail("is no whole number");
    number(static_cast<double>(least), static_cast<double>(most));
    return json_.get<int64_t>();
  }
  // A number of `things`, such as "node", of which there are `count`.
  void index(size_t count, const char* thing) const {
    if (!json_.is_number_integer()) fail("is no number of a " + std::string(thing));
    const bool is_there = json_.is_number_unsigned() ? json_.get<uint64_t>() < count
                                                     : json_.get<int64_t>() >= 0 && json_.get<uint64_t>() < count;
    if (!is_there) fail(json_.dump() + " is no " + thing + "; there are " + std::to_string(count));
  }
  size_t list(size_t least, size_t most) const {
    if (!json_.is_array()) fail("is no list");
    if (json_.size() < least || json_.size() > most)
      fail("has " + std::to_string(json_.size()) + " entries; " + std::to_string(least) + " to " +
           std::to_string(most) + " are possible");
    return json_.size();
  }
  void each(size_t most, const std::function<void(const Value&)>& check) const {
    const size_t count = list(0, most);
    for (size_t i = 0; i < count; ++i) check((*this)[i]);
  }

 private:
  const Json& json_;
  const std::string at_;
};

class Checker {
 public:
  explicit Checker(const Json& document) : root_(document, "") {}

  void run() {
    if (!root_.has("smelt_recording")) root_.fail("is no recording");
    if (root_["smelt_recording"].json() != kRecordingFormat)
      root_.fail("was saved by another version of smelt; record it again");
    for (const char* key : {"name", "device", "machine"}) root_[key].text();
    root_["estimated"].flag();
    root_["threads"].whole(1, kMostWorkers);
    root_["strings"].each(kMostTexts, [](const Value& v) { v.text(); });
    texts_ = root_["strings"].json().size();
    check_nodes(root_["nodes"]);
    kernels_ = root_["kernels"].list(0, kMostKernels);
    segments_ = root_["segments"].list(0, kMostKernels);
    root_["kernels"].each(kMostKernels, [&](const Value& v) { check_kernel(v); });
    root_["segments"].each(kMostKernels, [&](const Value& v) { check_segment(v); });
    root_["plans"].each(3, [&](const Value& v) { check_plan(v); });
    for (const char* key : {"profile", "estimate"})
      if (root_.has(key))
        if (const auto profile = profile_of(root_[key].json()); !profile) root_[key].fail(profile.error().message);
    if (root_.has("timeline")) check_timeline(root_["timeline"]);
    if (root_.has("start")) root_["start"].each(kMostKernels, check_stage);
  }

 private:
  void text_number(const Value& v) const { v.index(texts_, "text"); }
  void node(const Value& v) const { v.index(nodes_, "node"); }
  void kernel(const Value& v) const { v.index(kernels_, "kernel"); }
  static void size(const Value& v) { v.number(0, kLargest); }
  static void integer(const Value& v) {  // large ones are texts
    if (v.json().is_string())
      v.text();
    else
      v.whole(static_cast<int64_t>(-kLargest), static_cast<int64_t>(kLargest));
  }

  // Sources and sizes come before their users, so there are no cycles.
  void check_nodes(const Value& nodes) {
    const size_t count = nodes.list(0, kMostNodes);
    for (size_t i = 0; i < count; ++i) {
      const Value row = nodes[i];
      const size_t fields = row.list(2, 9);
      text_number(row[size_t{0}]);
      text_number(row[1]);
      for (size_t f : {size_t{2}, size_t{3}})
        if (fields > f) row[f].each(kMostItems, [&](const Value& v) { v.index(i, "earlier node"); });
      if (fields > 4) integer(row[4]);
      if (fields > 5) text_number(row[5]);
      if (fields > 6) row[6].each(kMostItems, integer);
      for (size_t f : {size_t{7}, size_t{8}})
        if (fields > f) text_number(row[f]);
    }
    nodes_ = count;
  }

  void check_passes(const Value& passes) const {
    passes.each(kMostItems, [&](const Value& pass) {
      pass["name"].text();
      pass["nest"].whole(0, 1 << 20);
      pass["roots"].each(kMostItems, [&](const Value& v) { node(v); });
      size(pass["fired"]);
      if (pass.has("fault")) pass["fault"].text();
      pass["rules"].each(kMostItems, [&](const Value& rule) {
        rule.list(4, 4);
        text_number(rule[size_t{0}]);
        node(rule[1]);
        node(rule[2]);
        size(rule[3]);
      });
    });
  }

  void check_kernel(const Value& k) const {
    for (const char* key : {"name", "program", "source", "assembly", "assembly_language"}) k[key].text();
    node(k["tree"]);
    k["options"].each(kMostItems, [](const Value& v) { v.text(); });
    if (k.has("heuristic")) k["heuristic"].each(kMostItems, [](const Value& v) { v.text(); });
    k["tried"].each(kMostItems, [&](const Value& tried) {
      tried.list(3, 3);
      tried[size_t{0}].whole(0, 1 << 20);
      text_number(tried[1]);
      text_number(tried[2]);
    });
    check_passes(k["passes"]);
  }

  void check_segment(const Value& s) const {
    s["stage"].text();
    size(s["arena"]);
    s["slots"].each(kMostItems, check_slot);
    s["kernels"].each(kMostItems, [&](const Value& v) { kernel(v); });
    s["levels"].each(kMostItems, size);
    s["buffers"].each(kMostItems, [](const Value& v) { v.each(kMostItems, check_slot); });
    const size_t count = s["kernels"].json().size();
    for (const char* key : {"levels", "buffers"}) s[key].list(count, count);
    s["temps"].each(kMostItems, [&](const Value& temp) {
      temp.list(4, 4);
      size(temp[size_t{0}]);
      size(temp[1]);
      temp[2].index(count, "kernel of the segment");
      temp[3].index(count, "kernel of the segment");
    });
    check_passes(s["passes"]);
    s["places"].each(kMostItems, [&](const Value& place) {
      place.list(3, 3);
      node(place[size_t{0}]);
      text_number(place[1]);
      text_number(place[2]);
    });
    s["items"].each(kMostItems, [&](const Value& item) {
      item.list(3, 3);
      node(item[size_t{0}]);
      text_number(item[1]);
      item[2].index(count, "kernel of the segment");
    });
  }

  static void check_slot(const Value& slot) {
    slot["name"].text();
    size(slot["bytes"]);
    if (slot.has("format")) slot["format"].text();
  }

  // kernel, segment, which of its kernels, layer, stage, lines
  void check_plan(const Value& plan) {
    plan["name"].text();
    plan["launches"].each(kMostItems, [&](const Value& launch) {
      launch.list(6, 6);
      kernel(launch[size_t{0}]);
      launch[1].index(segments_, "segment");
      launch[2].whole(0, 1 << 20);
      launch[3].whole(-1, 1 << 20);
      text_number(launch[4]);
      text_number(launch[5]);
    });
    launches_.push_back(plan["launches"].json().size());
  }

  void check_timeline(const Value& timeline) const {
    timeline["workers"].whole(1, kMostWorkers);
    timeline["runs"].each(kMostItems, [&](const Value& run) {
      run["plan"].index(launches_.size(), "plan");
      size(run["tokens"]);
      size(run["position"]);
      size(run["start"]);
      const size_t launches = launches_[run["plan"].json().get<size_t>()];
      run["times"].list(launches, launches);
      run["times"].each(kMostItems, size);
      if (!run.has("workers")) return;
      run["workers"].each(kMostWorkers, [&](const Value& worker) {
        worker.list(launches, launches);
        worker.each(kMostItems, size);
      });
    });
  }

  static void check_stage(const Value& stage) {
    stage["name"].text();
    for (const char* key : {"begin", "end", "minor_faults", "major_faults"}) size(stage[key]);
  }

  const Value root_;
  size_t texts_ = 0, nodes_ = 0, kernels_ = 0, segments_ = 0;
  std::vector<size_t> launches_;  // of each plan
};

Json recording_of_profile(Json profile) {
  Json out = {{"smelt_recording", kRecordingFormat},
              {"name", profile["model"]},
              {"device", profile.value("estimated_for", "")},
              {"machine", ""},
              {"estimated", profile.contains("estimated_for")},
              {"threads", profile["machine"]["threads"]},
              {"strings", {""}}};
  for (const char* key : {"nodes", "kernels", "segments", "plans"}) out[key] = Json::array();
  out["profile"] = std::move(profile);
  return out;
}

}  // namespace

Status check_recording(const Json& recording) {
  try {
    Checker(recording).run();
  } catch (const Wrong& wrong) {
    return Error{printable(wrong.what)};
  }
  return {};
}

Result<Json> load_recording(const std::string& path) {
  SMELT_TRY(text, read_file(path, kMostBytes));
  Json json = Json::parse(text, nullptr, false);
  const auto wrong = [&](const std::string& what) { return Error{"[viz] " + path + ": " + what}; };
  if (json.is_discarded()) return wrong("is no JSON; make a recording with `smelt viz --json FILE`");
  if (json.is_object() && json.contains("smelt_profile")) {
    if (const auto profile = profile_of(json); !profile) return wrong(profile.error().message);
    json = recording_of_profile(std::move(json));
  }
  if (const Status status = check_recording(json); !status)
    return wrong(status.error().message + "; make a recording with `smelt viz --json FILE`");
  return json;
}

}  // namespace smelt
