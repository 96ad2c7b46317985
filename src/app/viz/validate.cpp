#include "app/viz/validate.h"

#include <functional>

#include "app/profile_data.h"
#include "app/viz/checked_value.h"
#include "app/viz/validate_search.h"
#include "base/printable.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostTracks = 4096, kMostNodes = 500'000, kMostTexts = 1'000'000, kMostKernels = 20'000;
constexpr int64_t kMostWorkers = 4096, kMostLines = 100'000'000;

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
    root_["strings"].each(kMostTexts, [](const CheckedValue& v) { v.text(); });
    texts_ = root_["strings"].json().size();
    check_nodes(root_["nodes"]);
    kernels_ = root_["kernels"].list(0, kMostKernels);
    segments_ = root_["segments"].list(0, kMostKernels);
    root_["kernels"].each(kMostKernels, [&](const CheckedValue& v) { check_kernel(v); });
    root_["segments"].each(kMostKernels, [&](const CheckedValue& v) { check_segment(v); });
    root_["plans"].each(3, [&](const CheckedValue& v) { check_plan(v); });
    for (const char* key : {"profile", "estimate"})
      if (root_.has(key))
        if (const auto profile = profile_of(root_[key].json()); !profile) root_[key].fail(profile.error().message);
    if (root_.has("timeline")) check_timeline(root_["timeline"]);
    if (root_.has("tracks")) root_["tracks"].each(kMostTracks, [&](const CheckedValue& v) { check_track(v); });
    if (root_.has("search")) check_searches(root_["search"]);
    if (root_.has("start")) root_["start"].each(kMostKernels, check_stage);
  }

 private:
  void text_number(const CheckedValue& v) const { v.index(texts_, "text"); }
  void node(const CheckedValue& v) const { v.index(nodes_, "node"); }
  void kernel(const CheckedValue& v) const { v.index(kernels_, "kernel"); }
  static void size(const CheckedValue& v) { v.size(); }
  static void integer(const CheckedValue& v) {  // large ones are texts
    if (v.json().is_string())
      v.text();
    else
      v.whole(static_cast<int64_t>(-kLargestExact), static_cast<int64_t>(kLargestExact));
  }

  // Sources and sizes come before their users, so there are no cycles.
  void check_nodes(const CheckedValue& nodes) {
    const size_t count = nodes.list(0, kMostNodes);
    for (size_t i = 0; i < count; ++i) {
      const CheckedValue row = nodes[i];
      const size_t fields = row.list(2, 9);
      text_number(row[size_t{0}]);
      text_number(row[1]);
      for (size_t f : {size_t{2}, size_t{3}})
        if (fields > f) row[f].each(kMostItems, [&](const CheckedValue& v) { v.index(i, "earlier node"); });
      if (fields > 4) integer(row[4]);
      if (fields > 5) text_number(row[5]);
      if (fields > 6) row[6].each(kMostItems, integer);
      for (size_t f : {size_t{7}, size_t{8}})
        if (fields > f) text_number(row[f]);
    }
    nodes_ = count;
  }

  void check_passes(const CheckedValue& passes) const {
    passes.each(kMostItems, [&](const CheckedValue& pass) {
      pass["name"].text();
      pass["nest"].whole(0, 1 << 20);
      pass["roots"].each(kMostItems, [&](const CheckedValue& v) { node(v); });
      size(pass["fired"]);
      if (pass.has("fault")) pass["fault"].text();
      if (pass.has("fault_node")) node(pass["fault_node"]);
      pass["rules"].each(kMostItems, [&](const CheckedValue& rule) {
        rule.list(4, 4);
        text_number(rule[size_t{0}]);
        node(rule[1]);
        node(rule[2]);
        size(rule[3]);
      });
    });
  }

  void check_kernel(const CheckedValue& k) const {
    for (const char* key : {"name", "program", "source", "assembly", "assembly_language"}) k[key].text();
    if (k.has("source_language")) k["source_language"].text();
    node(k["tree"]);
    k["options"].each(kMostItems, [](const CheckedValue& v) { v.text(); });
    if (k.has("heuristic")) k["heuristic"].each(kMostItems, [](const CheckedValue& v) { v.text(); });
    k["tried"].each(kMostItems, [&](const CheckedValue& tried) {
      tried.list(3, 3);
      tried[size_t{0}].whole(0, 1 << 20);
      text_number(tried[1]);
      text_number(tried[2]);
    });
    if (k.has("assembly_lines"))
      k["assembly_lines"].each(kMostItems, [](const CheckedValue& v) { v.whole(0, kMostLines); });
    check_passes(k["passes"]);
  }

  void check_segment(const CheckedValue& s) const {
    s["stage"].text();
    size(s["arena"]);
    s["slots"].each(kMostItems, check_slot);
    s["kernels"].each(kMostItems, [&](const CheckedValue& v) { kernel(v); });
    s["levels"].each(kMostItems, size);
    s["buffers"].each(kMostItems, [](const CheckedValue& v) { v.each(kMostItems, check_slot); });
    const size_t count = s["kernels"].json().size();
    for (const char* key : {"levels", "buffers"}) s[key].list(count, count);
    s["temps"].each(kMostItems, [&](const CheckedValue& temp) {
      temp.list(4, 4);
      size(temp[size_t{0}]);
      size(temp[1]);
      temp[2].index(count, "kernel of the segment");
      temp[3].index(count, "kernel of the segment");
    });
    check_passes(s["passes"]);
    s["places"].each(kMostItems, [&](const CheckedValue& place) {
      place.list(3, 3);
      node(place[size_t{0}]);
      text_number(place[1]);
      text_number(place[2]);
    });
    s["items"].each(kMostItems, [&](const CheckedValue& item) {
      item.list(3, 3);
      node(item[size_t{0}]);
      text_number(item[1]);
      item[2].index(count, "kernel of the segment");
    });
  }

  static void check_slot(const CheckedValue& slot) {
    slot["name"].text();
    size(slot["bytes"]);
    if (slot.has("format")) slot["format"].text();
  }

  // kernel, segment, which of its kernels, layer, stage, lines
  void check_plan(const CheckedValue& plan) {
    plan["name"].text();
    plan["launches"].each(kMostItems, [&](const CheckedValue& launch) {
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

  void check_timeline(const CheckedValue& timeline) const {
    timeline["workers"].whole(1, kMostWorkers);
    timeline["runs"].each(kMostItems, [&](const CheckedValue& run) {
      run["plan"].index(launches_.size(), "plan");
      size(run["tokens"]);
      size(run["position"]);
      size(run["start"]);
      const size_t launches = launches_[run["plan"].json().get<size_t>()];
      run["times"].list(launches, launches);
      run["times"].each(kMostItems, size);
      if (!run.has("workers")) return;
      run["workers"].each(kMostWorkers, [&](const CheckedValue& worker) {
        worker.list(launches, launches);
        worker.each(kMostItems, size);
      });
    });
  }

  // name, category, begin, nanoseconds, detail; in the order of their beginnings
  void check_track(const CheckedValue& track) const {
    track["name"].text();
    double before = 0;
    track["events"].each(kMostItems, [&](const CheckedValue& event) {
      event.list(5, 5);
      for (size_t f : {size_t{0}, size_t{1}, size_t{4}}) text_number(event[f]);
      before = event[2].number(before, kLargestExact);
      size(event[3]);
    });
  }

  static void check_stage(const CheckedValue& stage) {
    stage["name"].text();
    for (const char* key : {"begin", "end", "minor_faults", "major_faults"}) size(stage[key]);
  }

  const CheckedValue root_;
  size_t texts_ = 0, nodes_ = 0, kernels_ = 0, segments_ = 0;
  std::vector<size_t> launches_;  // of each plan
};

}  // namespace

Status check_recording(const Json& recording) {
  try {
    Checker(recording).run();
  } catch (const WrongValue& wrong) {
    return Error{printable(wrong.what)};
  }
  return {};
}

}  // namespace smelt
