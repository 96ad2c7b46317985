// `smelt viz`: what counts as a recording, what a page may hold, and what the program records.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/process.h"
#include "app/viz/live.h"
#include "app/viz/load.h"
#include "app/viz/page.h"
#include "app/viz/print.h"
#include "app/viz/record_kernels.h"
#include "app/viz/validate.h"
#include "base/file.h"
#include "graph/tensor.h"
#include "graph/text.h"
#include "schedule/schedule.h"

using namespace smelt;
using smelt::test::Outcome;
using smelt::test::scratch;

namespace {

constexpr const char* kMarkup = "<img src=x onerror=alert(1)></script><script>alert(1)</script>";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// c = a + b, one kernel, one run.
Json small_recording() {
  return Json::parse(R"json({
    "smelt_recording": 1, "name": "small", "device": "a processor", "machine": "zen4", "estimated": false, "threads": 2,
    "strings": ["", "param", "f32", "add", "model.cpp:12", "add-zero", "memory", "leaves the segment", "local(o1,4)",
                "attention"],
    "nodes": [[1, 2], [1, 2, [], [], 1], [3, 2, [0, 1], [], 0, 0, [], 0, 4]],
    "kernels": [{"name": "add_4", "tree": 2, "options": ["local(o1,4)"], "tried": [[0, 8, 0]],
                 "passes": [{"nest": 0, "name": "options", "roots": [2], "rules": [[5, 2, 0, 3]], "fired": 3}],
                 "program": "program add_4", "source": "define void @add_4()", "assembly": "ret",
                 "assembly_language": "assembly"}],
    "segments": [{"stage": "block", "arena": 64, "slots": [{"name": "w", "bytes": 16, "format": "F32"}], "kernels": [0],
                  "levels": [0], "buffers": [[{"name": "hidden", "bytes": 0}]], "temps": [[0, 64, 0, 0]],
                  "passes": [{"nest": 0, "name": "model", "roots": [2], "rules": [], "fired": 0}],
                  "places": [[2, 6, 7]], "items": [[2, 0, 0]]}],
    "plans": [{"name": "decode", "launches": [[0, 0, 0, 0, 9, 4]]}],
    "timeline": {"workers": 2, "runs": [{"plan": 0, "tokens": 1, "position": 3, "start": 0, "times": [2000],
                                         "workers": [[2000], [1000]]}]},
    "search": [{"kernel": "add_4", "plan": "decode", "stage": "attention", "what": "sums", "layout": "", "calls": 1,
                "share": 0.5, "problem": "", "before_us": 4, "after_us": 2, "floor_us": 1, "improved": true,
                "interrupted": false, "considered": 9, "hopeless": 3, "compiled": 2, "wrong": 1, "judged": 4,
                "before": "none", "after": "local(o1,4)", "winner": 1,
                "trials": [[-1, 0, 3, 1, 0, "none"], [0, 1, 2.5, 0.5, 0.5, "local(o1,4)"],
                           [0, 1, 2, 0, 0, "upcast(o1,4)", "byte 4 differs"]]}],
    "start": [{"name": "loading", "begin": 0, "end": 0.5, "minor_faults": 10, "major_faults": 1}]
  })json");
}

std::string problem_with(const Json& recording) {
  const Status status = check_recording(recording);
  return status ? "" : status.error().message;
}

// With the value at `path` replaced.
std::string problem_at(const char* path, Json value) {
  Json recording = small_recording();
  recording[Json::json_pointer(path)] = std::move(value);
  return problem_with(recording);
}

std::string saved(const std::string& name, const std::string& text) {
  std::ofstream(scratch().file(name)) << text;
  return scratch().file(name);
}

std::string printed(const char* view) {
  const auto text = print_view({small_recording()}, {.view = view});
  return text ? *text : text.error().message;
}

Ref wrongly_typed(Ref f32) {
  return make(Op::Neg, DType::F32, {make(Op::Cast, DType::I32, {f32}, {}, f32->shape)}, {}, f32->shape);
}

// One kernel, as a plan of one launch.
class OneKernel : public KernelSet {
 public:
  // is_wrong: the segment, not the kernel, has a node of another type than its source.
  explicit OneKernel(bool is_wrong = false) {
    const Tensor x = param(0, DType::F32, {1, 64}, "x"), w = param(1, DType::F32, {32, 64}, "w");
    root_ = sink({output(2, linear(x, w))});
    tree_ = make_schedule(root_).kernels[0].tree;
    if (is_wrong) root_ = sink({output(2, Tensor(wrongly_typed(linear(x, w).ref())))});
    const CodegenResult made = generate({.tree = tree_, .name = "one"});
    opts_ = made.opts;
  }
  int kernel_count() const override { return 1; }
  KernelDescription kernel(int) const override { return {.name = "one", .tree = tree_, .opts = opts_}; }
  KernelListing listing(int, bool) const override {
    return {.program = generate({.tree = tree_, .name = "one", .opts = opts_}).program};
  }
  std::vector<PlanLaunch> launches(PlanKind plan) const override {
    if (plan != PlanKind::Decode) return {};
    return {{.stage = "block", .layer = 0, .buffers = {{"x"}, {"w", true}, {"y"}}}};
  }
  std::vector<PlanSegment> segments(PlanKind plan) const override {
    if (plan != PlanKind::Decode) return {};
    return {{.root = root_, .stage = "block", .layer = 0, .kernels = {0}}};
  }

 private:
  Ref root_, tree_;
  KernelOpts opts_;
};

}  // namespace

TEST_CASE("a recording says of itself what is wrong, and where") {
  CHECK(problem_with(small_recording()).empty());
  CHECK(contains(problem_with(Json::array()), "is no recording"));
  CHECK(contains(problem_at("/smelt_recording", 2), "another version"));
  CHECK(problem_at("/name", 7) == "name: is no text");
  CHECK(problem_at("/strings/3", nullptr) == "strings[3]: is no text");
  CHECK(problem_at("/kernels/0/tree", 70) == "kernels[0].tree: 70 is no node; there are 3");
  CHECK(problem_at("/kernels/0/tree", -1) == "kernels[0].tree: -1 is no node; there are 3");
  CHECK(problem_at("/kernels/0/tree", 0.5) == "kernels[0].tree: is no number of a node");
  CHECK(contains(problem_at("/kernels/0/passes/0/rules/0/1", 3), "kernels[0].passes[0].rules[0][1]: 3 is no node"));
  CHECK(contains(problem_at("/segments/0/temps/0/3", 1), "1 is no kernel of the segment"));
  CHECK(contains(problem_at("/plans/0/launches/0/0", 1), "1 is no kernel"));
  CHECK(contains(problem_at("/timeline/runs/0/times", Json::array()), "timeline.runs[0].times: has 0 entries"));
  CHECK(contains(problem_at("/timeline/runs/0/times/0", -5), "out of range"));
  CHECK(contains(problem_at("/timeline/runs/0/times/0", 1e300), "out of range"));
  CHECK(contains(problem_at("/kernels/0/passes/0/fault_node", 9), "9 is no node"));
  CHECK(contains(problem_at("/kernels/0/assembly_lines", Json::parse("[0, -1]")), "assembly_lines[1]: -1 is out of"));
  CHECK(contains(problem_at("/profile", Json::object()), "profile: is not a profile"));
  CHECK(contains(problem_at("/search/0/trials/1/0", 1), "search[0].trials[1][0]: 1 is out of range"));
  CHECK(contains(problem_at("/search/0/winner", 3), "search[0].winner: 3 is out of range"));
  CHECK(contains(problem_at("/search/0/trials/0/3", -1), "search[0].trials[0][3]: -1 is out of range"));
  CHECK(contains(problem_at("/search/0/share", nullptr), "search[0].share: is no number"));
  Json lacking = small_recording();
  lacking["segments"][0].erase("places");
  CHECK(problem_with(lacking) == "segments[0]: has no \"places\"");
}

TEST_CASE("a graph with a cycle or a million nodes is refused") {
  CHECK(contains(problem_at("/nodes/2/2/0", 2), "nodes[2][2][0]: 2 is no earlier node"));
  CHECK(contains(problem_at("/nodes/0", Json::parse("[1, 2, [2]]")), "nodes[0][2][0]: 2 is no earlier node"));
  CHECK(contains(problem_at("/nodes/1/3", Json::parse("[1]")), "1 is no earlier node"));
  Json many = small_recording();
  many["nodes"] = Json(std::vector<Json>(1'000'000, Json::parse("[1, 2]")));
  CHECK(contains(problem_with(many), "nodes: has 1000000 entries"));
}

TEST_CASE("no text of a recording leaves its place in the page") {
  Json hostile = small_recording();
  const std::string plain = page_with({small_recording()});
  hostile["name"] = kMarkup;
  hostile["strings"][4] = kMarkup;
  hostile["kernels"][0]["program"] = kMarkup;
  REQUIRE(check_recording(hostile).ok());
  const std::string page = page_with({hostile});
  for (const char* tag : {"<script", "</script", "<img"}) CHECK(count(page, tag) == count(plain, tag));
  CHECK(contains(page, "\\u003cimg src=x"));
  CHECK(contains(page, "script-src 'sha256-"));
  CHECK_FALSE(contains(page, "@RECORDINGS@"));
  CHECK_FALSE(contains(page, "http-equiv=\"refresh"));
}

TEST_CASE("what a tune has tried is a recording, and goes into one beside it") {
  Json tune = {{"smelt_search", 1}, {"name", "m"}, {"device", "d"}, {"machine", "zen4"}, {"threads", 2}};
  tune["search"] = small_recording()["search"];
  Json recording = small_recording();
  recording.erase("search");
  const std::string tried = saved("tried.json", tune.dump()), whole = saved("whole.json", recording.dump());
  const auto alone = load_recordings({tried});
  REQUIRE_MESSAGE(alone.ok(), alone.error().message);
  CHECK(alone->at(0)["name"] == "m");
  CHECK(alone->at(0)["search"].size() == 1);
  const auto joined = load_recordings({whole, tried});
  REQUIRE(joined.ok());
  REQUIRE(joined->size() == 1);
  CHECK(joined->at(0)["kernels"].size() == 1);
  CHECK(joined->at(0)["search"] == tune["search"]);
  CHECK(contains(load_recordings({whole, whole, whole}).error().message, "one is shown, or two are compared"));
  tune["smelt_search"] = 2;
  CHECK(contains(load_recordings({saved("new.json", tune.dump())}).error().message, "another version"));
  CHECK(contains(load_recordings({saved("bad.json", R"({"smelt_search": 1, "search": [{}]})")}).error().message,
                 "name: is no text"));
}

TEST_CASE("a recording that is read is not written, which is said before the work") {
  const std::string in = saved("read.json", small_recording().dump()), before = *read_file(in);
  const std::string refusal = "smelt: " + in + ": this file is read; name another one to write\n";
  // The last one is no model, which opening it would say.
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"viz", in, "--json", in}, {"viz", in, "--out", in}, {"viz", "-m", in, "--json", in}}) {
    const Outcome done = smelt::test::smelt(arguments);
    CHECK(done.exit_code == 1);
    CHECK(done.err == refusal);
  }
  CHECK(*read_file(in) == before);
}

TEST_CASE("a trace is shown as tracks, whoever made it") {
  const auto shown = [](const std::string& events) {
    return load_recordings({saved("trace.json", "{\"traceEvents\": [" + events + "]}")});
  };
  const auto trace = shown(R"({"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "launches"}},
                              {"ph": "X", "name": "inner", "cat": "c", "pid": 1, "tid": 2, "ts": 12, "dur": 3},
                              {"ph": "X", "name": "outer", "pid": 1, "tid": 2, "ts": 10, "dur": 9,
                               "args": {"layer": 3, "what": "sums"}},
                              7, {"ph": "X", "name": 5, "ts": "soon", "pid": 2, "tid": 1})");
  REQUIRE_MESSAGE(trace.ok(), trace.error().message);
  const Json& r = trace->at(0);
  REQUIRE(r["tracks"].size() == 2);
  const Json& track = r["tracks"][0];
  CHECK(track["name"] == "launches");
  const auto string = [&](const Json& number) { return r["strings"][number.get<size_t>()].get<std::string>(); };
  CHECK(string(track["events"][0][0]) == "outer");
  CHECK(string(track["events"][0][4]) == "layer: 3\nwhat: sums");
  CHECK(track["events"][1][2] == 12'000);
  CHECK(track["events"][1][3] == 3'000);
  CHECK(contains(shown(R"({"ph": "X", "ts": 1, "dur": -1})").error().message, "tracks[0].events[0][3]: -1000.0"));
  CHECK(contains(shown("").error().message, "no event in it has a duration"));
}

TEST_CASE("kernels that DUMP left behind are recorded without a model") {
  const OneKernel one;
  const std::string folder = scratch().file("dumped");
  std::filesystem::create_directory(folder);
  CHECK(contains(load_recordings({folder}).error().message, "no NAME.ir is in it"));
  std::ofstream(folder + "/one.ir") << print(one.kernel(0).tree);
  for (const std::string& path : {folder, folder + "/one.ir"}) {
    const auto dumped = load_recordings({path}, "zen4");
    REQUIRE_MESSAGE(dumped.ok(), dumped.error().message);
    const Json& r = dumped->at(0);
    CHECK(problem_with(r).empty());
    REQUIRE(r["kernels"].size() == 1);
    CHECK(r["kernels"][0]["name"] == "one");
    CHECK(r["kernels"][0]["passes"].size() == 12);
    CHECK(contains(r["kernels"][0]["assembly"].get<std::string>(), "ret"));
    CHECK(r["kernels"][0]["assembly_lines"].size() > 10);
  }
  std::ofstream(folder + "/two.ir") << "hello";
  CHECK(contains(load_recordings({folder}).error().message, "two.ir"));
}

TEST_CASE("the page is for this machine, and questions are for the page alone") {
  const HttpHeaders host = {{"Host", "127.0.0.1:8080"}};
  const auto with = [&](HttpHeaders more) {
    more.insert(more.end(), host.begin(), host.end());
    return more;
  };
  const std::string token = new_token();
  CHECK(token.size() == 32);
  CHECK(token != new_token());
  const LivePage without_model{.page = page_with({small_recording()}), .token = {}};
  CHECK(answer_to({.method = "GET", .path = "/", .headers = host}, without_model).status == 200);
  CHECK(contains(without_model.page, "connect-src 'none'"));
  const HttpHeaders json = {{"Content-Type", "application/json"}};
  CHECK(answer_to({.method = "POST", .path = "/what-if", .headers = with(json)}, without_model).status == 404);
  CHECK(answer_to({.method = "GET", .path = "/", .headers = {{"Host", "evil.example"}}}, without_model).status == 403);
  CHECK(answer_to({.method = "GET", .path = "/x", .headers = host}, without_model).status == 404);
  CHECK(contains(page_with({small_recording()}, token), "connect-src 'self'"));
  CHECK(contains(page_with({small_recording()}, token), "data-token=\"" + token + "\""));
}

TEST_CASE("other options of a kernel are refused with a reason, or checked and timed" * doctest::test_suite("long")) {
  const auto model = ProfiledModel::open({.engine = {.threads = 2}});
  REQUIRE(model.ok());
  WhatIf what_if(*model->session, {.threads = 2}, 16);
  const LivePage live{.page = {}, .token = "secret", .what_if = &what_if};
  const auto ask = [&](const Json& question, const std::string& token) {
    return answer_to(
        {.method = "POST",
         .path = "/what-if",
         .headers = {{"Host", "127.0.0.1"}, {"Content-Type", "application/json"}, {"Authorization", "Bearer " + token}},
         .body = question.dump()},
        live);
  };
  const KernelDescription kernel = model->session->loaded().kernel(0);
  Json options = Json::array();
  for (const auto& nest : kernel.opts) options.push_back(to_string(nest));
  const Json as_it_is = {{"kernel", kernel.name}, {"options", options}};
  CHECK(ask(as_it_is, "guess").status == 401);
  const Json same = Json::parse(ask(as_it_is, "secret").body);
  REQUIRE_MESSAGE(same.contains("after_us"), same.dump());
  CHECK(same["after_us"].get<double>() > 0);
  CHECK(same["judged"].get<int>() > 0);
  CHECK(contains(same["program"].get<std::string>(), "program "));
  const auto refused = [&](const Json& question) {
    return Json::parse(ask(question, "secret").body).value("refused", "");
  };
  Json other = as_it_is;
  other["options"][0] = "local(o99,16)";
  CHECK(contains(refused(other), "o99"));
  other["options"][0] = "nonsense";
  CHECK(contains(refused(other), "nonsense"));
  CHECK(contains(refused({{"kernel", kernel.name}}), "one for each nest"));
  CHECK(contains(refused({{"kernel", "x"}, {"options", options}}), "no such kernel"));
  CHECK(contains(refused(Json::array()), "names no kernel"));
}

TEST_CASE("views as text") {
  CHECK(contains(printed("schedule"), "add gets memory: leaves the segment (model.cpp:12)"));
  CHECK(contains(printed("rewrites"), "nest 0, options: 1 roots, 3 rules fired"));
  CHECK(contains(printed("kernel"), "add_4"));
  CHECK(contains(printed("timeline"), "attention"));
  CHECK(contains(printed("timeline"), "workers wait for each other 25.0 % of the time"));
  CHECK(contains(printed("timeline"), "11 page faults, 1 of them from the disk"));
  CHECK(contains(printed("search"), "add_4, decode attention\n  4.0 us, then 2.0; 9 lists of options"));
  CHECK(contains(printed("search"), "0.500 of its time, estimate      2.5 us  local(o1,4)"));
  CHECK(contains(printed("model"), "no times"));
  CHECK(contains(printed("compare"), "give two recordings"));
}

TEST_CASE("a recorded kernel has all its passes, and the options that were tried with their reasons") {
  const OneKernel kernels;
  Tables tables;
  Json plans = Json::array();
  Json segments = record_segments(kernels, tables, plans);
  const Json recorded = record_kernels(kernels, tables);
  REQUIRE(recorded.size() == 1);
  const Json& kernel = recorded[0];
  std::vector<std::string> names;
  double fired = 0;
  for (const Json& pass : kernel["passes"]) {
    names.push_back(pass["name"].get<std::string>());
    fired += pass["fired"].get<double>();
    CHECK_FALSE(pass.contains("fault"));
  }
  CHECK(names == std::vector<std::string>{"bound masks", "split ranges", "order sums", "hoist factors",
                                          "fuse multiply-adds", "options", "pack dots", "matrix dots", "expand",
                                          "rounds of a softmax", "coalesce loads", "look up words"});
  CHECK(fired > 0);  // although the same expressions were simplified before
  const Json strings = tables.strings.json();
  std::vector<std::string> taken;
  for (const Json& tried : kernel["tried"])
    if (strings[tried[2].get<size_t>()] == "") taken.push_back(strings[tried[1].get<size_t>()].get<std::string>());
  std::string applied;
  for (const std::string& option : taken) applied += (applied.empty() ? "" : " ") + option;
  CHECK(applied == kernel["options"][0].get<std::string>());
  REQUIRE(segments.size() == 1);
  CHECK(segments[0]["passes"].size() == 5);
  for (const Json& pass : segments[0]["passes"]) CHECK_FALSE(pass.contains("fault"));
  CHECK(segments[0]["items"].size() >= 1);
  CHECK(segments[0]["places"].size() >= 1);
}

TEST_CASE("what breaks the rules of a segment is said at its pass, with the node") {
  Tables tables;
  Json plans = Json::array();
  const Json segment = record_segments(OneKernel(/*is_wrong=*/true), tables, plans)[0];
  const Json strings = tables.strings.json(), nodes = std::move(tables.nodes).json();
  const Json& model = segment["passes"][0];
  CHECK(model["name"] == "model");
  REQUIRE(model.contains("fault"));
  CHECK(contains(model["fault"].get<std::string>(), "[verify] tensor: neg f32"));
  CHECK(strings[nodes[model["fault_node"].get<size_t>()][0].get<size_t>()] == "neg");
}

TEST_CASE("what is no recording is an error in one line") {
  const std::pair<std::string, std::string> cases[] = {
      {saved("text.json", "hello"), "is no JSON"},
      {saved("list.json", "[1, 2"), "is no JSON"},
      {saved("deep.json", std::string(200'000, '[') + std::string(200'000, ']')), "is no recording"},
      {saved("other.json", "{\"a\": 1}"), "is no recording"},
      {saved("wrong.json", R"({"smelt_recording": 1, "name": "\u001b[31m<b>"})"), "has no \"device\""},
      {scratch().file("nowhere.json"), "nowhere.json"},
  };
  for (const auto& [path, part] : cases) {
    const Outcome run = smelt::test::smelt({"viz", path, "--print", "model"});
    CAPTURE(run.err);
    CHECK(run.exit_code == 1);
    CHECK(contains(run.err, "smelt: "));
    CHECK(contains(run.err, part));
    CHECK(count(run.err, "\n") == 1);
  }
  CHECK(smelt::test::smelt({"viz", "--print", "nothing"}).exit_code == 2);
}

TEST_CASE("a model is recorded, saved, opened again and printed" * doctest::test_suite("long")) {
  const std::string json = scratch().file("viz.json"), html = scratch().file("viz.html");
  const Outcome made =
      smelt::test::smelt({"viz", "-n", "2", "--prompt-tokens", "8", "-r", "1", "--json", json, "--out", html});
  REQUIRE(made.exit_code == 0);
  CHECK(std::filesystem::file_size(html) < 20'000'000);
  const auto recording = load_recording(json);
  REQUIRE(recording.ok());
  const Json& r = *recording;
  CHECK(r["plans"].size() == 3);
  CHECK(r["plans"][0]["launches"].size() > 10);
  CHECK(r["start"].size() >= 1);
  size_t runs = 0;
  for (const Json& run : r["timeline"]["runs"]) runs += run["plan"] == 0;
  CHECK(runs == 2);
  for (const char* view : {"model", "schedule", "rewrites", "kernel", "timeline"}) {
    const auto text = print_view({r}, {.view = view, .top = 3});
    CAPTURE(view);
    CHECK(text.ok());
  }
  CHECK(print_view({r, r}, {.view = "compare"}).ok());
  const Outcome again = smelt::test::smelt({"viz", json, "--print", "kernel", "--kernel", "no such kernel"});
  CHECK(again.exit_code == 1);
  CHECK(contains(again.err, "no kernel has this in its name"));
}
