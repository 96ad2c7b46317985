// `smelt profile`: words and advice, saved profiles, timelines, and short runs of the program.
#include "app/profile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/process.h"
#include "app/profile_advice.h"
#include "app/profile_nodes.h"
#include "app/profile_report.h"
#include "app/profile_words.h"
#include "engine/session.h"
#include "graph/tensor.h"
#include "schedule/schedule.h"

using namespace smelt;
using smelt::test::Outcome;
using smelt::test::scratch;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string file_text(const std::string& path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

constexpr MachineRates kMachine{.threads = 4,
                                .bytes_per_second = 1e10,
                                .arithmetic = {.threads = 4, .one_thread = 3e10, .least = 1e11, .most = 1e11},
                                .barrier_seconds = 1e-6};

// A millisecond in which memory and arithmetic are nearly idle.
ProfiledKernel slow_kernel() {
  return {.name = "sum_8",
          .what = "attn_q of hidden (8 sums of 8)",
          .lines = "model.cpp:12",
          .stage = "attention",
          .calls = 1,
          .seconds = 1e-3,
          .read = 1e5,
          .tasks = 64};
}

std::string advice(const ProfiledKernel& kernel) {
  std::string text;
  for (const std::string& line : advice_on(kernel, kMachine, 2e-3)) text += line + "\n";
  return text;
}

Profile small_profile(double seconds) {
  ProfiledKernel kernel = slow_kernel();
  kernel.seconds = seconds;
  kernel.advice = {"because"};
  ProfiledPlan plan{.name = "decode", .tokens = 1, .runs = 3, .kernels = {kernel}};
  plan.waiting = {0.1, 0.02, 0.3, 0.1};
  plan.stages = {{"attention", seconds, 1e5, 1}};
  plan.layers = {{"layer 0", seconds / 2, 1e5, 1}, {"layer 1", seconds / 2, 1e5, 1}};
  return {.model = "m.gguf", .machine = kMachine, .plans = {plan}};
}

PlanLaunch launch_of(std::vector<LaunchBuffer> buffers) {
  return {.stage = "block", .layer = 3, .buffers = std::move(buffers)};
}

}  // namespace

TEST_CASE("the advisor names the cause with its evidence") {
  ProfiledKernel k = slow_kernel();
  CHECK(contains(advice(k), "far below both rooflines: 1 % of the memory bandwidth"));
  k.tasks = 5;
  CHECK(contains(advice(k), "too little parallelism: 5 tasks for 4 workers leave them idle for 38 %"));
  CHECK(!contains(advice(k), "far below"));
  k = slow_kernel();
  k.waiting = 0.3e-3;
  CHECK(contains(advice(k), "imbalance: workers wait 30 % of its time for the last one"));
  k.workers = 2 * k.calls;
  CHECK(contains(advice(k), "packed: 64 tasks came to 2 of 4 workers"));
  CHECK(!contains(advice(k), "imbalance"));
  k.tasks = 5;
  k.workers = 2 * k.calls;
  CHECK(contains(advice(k), "packed: 5 tasks came to 2 of 4 workers"));
  CHECK(contains(advice(k), "too little parallelism"));
  k.workers = 3 * k.calls;
  CHECK(!contains(advice(k), "packed"));
  k = slow_kernel();
  k.scalar_share = 0.9;
  CHECK(contains(advice(k), "not vectorised: 90 %"));
  k = slow_kernel();
  k.gather_share = 0.5;
  CHECK(contains(advice(k), "scattered loads: 50 %"));
  k = slow_kernel();
  k.weight_gather_share = 0.4;
  CHECK(contains(advice(k), "wrong layout: 40 % of the loads"));
  k = slow_kernel();
  k.serial_share = 0.8;
  k.serial_cycles = 4;
  k.serial_instructions = 3;
  CHECK(contains(advice(k),
                 "serial reduction: in loops with 80 % of the time each round waits 4 cycles for "
                 "the sum of the one before, and has 3 instructions"));
  k = slow_kernel();
  k.float_passes = 2.04;
  CHECK(contains(advice(k), "recomputation: the code does 2.0 times the floating-point"));
  k = slow_kernel();
  k.weight_passes = 8;
  CHECK(contains(advice(k), "loads each byte of its weights 8.0 times"));
  k = slow_kernel();
  k.remote_share = 0.5;
  CHECK(contains(advice(k), "remote memory: 50 % of its weights lie on another node"));
  k = slow_kernel();
  k.calls = 500;
  CHECK(contains(advice(k), "barrier-bound: 2.00 us a call"));
}

TEST_CASE("arithmetic is told as part of what the operations of a kernel could reach") {
  MachineRates machine = kMachine;  // 1e11 a second in f32
  machine.arithmetic.bytes = 4e11;
  machine.arithmetic.unit = 4e12;
  ProfiledKernel k = slow_kernel();
  k.float_ops = 2e7;
  CHECK(arithmetic_share(k, machine).share == doctest::Approx(0.2));
  CHECK(arithmetic_share(k, machine).kind == std::string("f32"));
  k.int_ops = 3e8;
  k.byte_ops = 2e8;
  CHECK(arithmetic_share(k, machine).share == doctest::Approx(0.5));
  CHECK(arithmetic_share(k, machine).kind == std::string("int8"));
  k.uses_unit = true;
  k.float_ops = 1e6;
  CHECK(arithmetic_share(k, machine).share == doctest::Approx(0.05));
  CHECK(arithmetic_share(k, machine).kind == std::string("unit"));
  k.byte_ops = 8e9;
  Profile profile = small_profile(1e-3);
  profile.machine = machine;
  profile.plans[0].kernels = {k};
  CHECK(contains(report(profile), " over unit "));
  CHECK(contains(report(profile), "over: more than arithmetic reached"));
  machine.arithmetic.unit = 0;
  profile.machine = machine;
  CHECK(arithmetic_share(k, machine).share < 0);  // nobody knows
  CHECK(contains(report(profile), " unit "));
  CHECK(!contains(report(profile), "over"));
}

TEST_CASE("memory is remote where a page and the worker that reads it are on different nodes") {
  const std::vector<int> nodes = {0, 0, 1, 1}, near = {0, 0, 0, 0, 1, 1, 1, 1}, far = {1, 1, 1, 1, 0, 0, 0, 0},
                         half = {0, 1, 0, 1, 0, 1, 0, 1}, unknown(8, -1);
  CHECK(remote_share_of(near, false, nodes) == 0);
  CHECK(remote_share_of(far, false, nodes) == 1);
  CHECK(remote_share_of(half, false, nodes) == 0.5);
  CHECK(remote_share_of(near, true, nodes) == 0.5);  // all workers read each page
  CHECK(remote_share_of(unknown, false, nodes) == 0);
  CHECK(remote_share(launch_of({{"attn_q.weight", true}}), {}, nodes) == 0);  // of a model that is only looked at
}

TEST_CASE("the advisor is silent about kernels that are fast or do not matter") {
  ProfiledKernel fast = slow_kernel();
  fast.read = 0.8e7;  // 80 % of what memory gives in a millisecond
  fast.tasks = 5;
  CHECK(advice(fast).empty());
  ProfiledKernel cheap = slow_kernel();
  cheap.seconds = 1e-6;
  CHECK(advice(cheap).empty());
}

TEST_CASE("words name weights, inputs, outputs and operations") {
  const Tensor x = param(0, DType::F32, {1, 64}, "x"), w = param(1, DType::F32, {32, 64}, "w");
  const Schedule schedule = make_schedule(sink({output(2, linear(x, w))}));
  REQUIRE(schedule.kernels.size() == 1);
  PlanLaunch launch = launch_of({});
  for (Ref b : schedule.kernels[0].buffers) {
    const char* const names[] = {"hidden", "attn_q_a.weight", "temp 0"};
    launch.buffers.push_back({names[b->arg.i], b->arg.i == 1});
  }
  const Ref tree = schedule.kernels[0].tree;
  CHECK(launch_in_words(launch, tree, cost_of(tree)) == "attn_q_a of hidden -> temp 0 (32 sums of 64)");
}

TEST_CASE("a launch belongs to the part of the model whose weights it reads") {
  CHECK(stage_of(launch_of({{"attn_q_a.weight", true}}), "embed") == "attention");
  CHECK(stage_of(launch_of({{"attn_output.weight", true}, {"ffn_norm.weight", true}}), "") == "attention");
  CHECK(stage_of(launch_of({{"ffn_norm.weight", true}, {"ffn_gate_inp.weight", true}}), "attention") == "router");
  CHECK(stage_of(launch_of({{"ffn_gate_exps.weight", true}, {"ffn_gate_shexp.weight", true}}), "router") == "experts");
  CHECK(stage_of(launch_of({{"ffn_down_shexp.weight", true}}), "experts") == "shared expert");
  CHECK(stage_of(launch_of({{"ffn_down.weight", true}}), "attention") == "dense ffn");
  CHECK(stage_of(launch_of({{"temp 1", false}}), "experts") == "experts");
  CHECK(stage_of(launch_of({{"temp 1", false}}), "embed") == "attention");
  CHECK(stage_of({.stage = "head"}, "experts") == "head");
}

TEST_CASE("a saved profile reads back the same, other files are refused by name") {
  const std::string path = scratch().file("profile.json");
  const Profile profile = small_profile(1e-3);
  std::ofstream(path) << text_of_profile(profile);
  const auto loaded = load_profile(path);
  REQUIRE(loaded.ok());
  CHECK(json_of(*loaded) == json_of(profile));
  CHECK(loaded->plans[0].kernels[0].lines == "model.cpp:12");
  auto older = json_of(profile);  // from before there were lines
  for (const char* field : {"lines", "serial_share", "float_passes", "byte_ops", "uses_unit", "remote_share"})
    older["plans"][0]["kernels"][0].erase(field);
  std::ofstream(path) << older;
  REQUIRE(load_profile(path).ok());
  CHECK(load_profile(path)->plans[0].kernels[0].lines == "");
  for (const char* text :
       {"", "{}", "[1]", "{\"smelt_profile\":1}", "{\"smelt_profile\":99}", "{\"smelt_profile\":1,\"model\":3}"}) {
    std::ofstream(path) << text;
    const auto refused = load_profile(path);
    REQUIRE(!refused.ok());
    CHECK(contains(refused.error().message, path));
  }
  CHECK(!load_profile("/nowhere/profile.json").ok());
}

TEST_CASE("a comparison shows what became of kernels and stages") {
  Profile after = small_profile(0.5e-3);
  CHECK(contains(comparison(small_profile(1e-3), after), "2.00x  sum_8, attention: attn_q of hidden"));
  after.plans[0].kernels[0].name = "other_code";  // the same work is still the same line
  CHECK(contains(comparison(small_profile(1e-3), after), "2.00x  other_code, attention: attn_q of hidden"));
  after.plans[0].kernels[0].what = "other work";
  const std::string text = comparison(small_profile(1e-3), after);
  CHECK(contains(text, "new"));
  CHECK(contains(text, "gone"));
}

TEST_CASE("a report has kernels with advice, stages and layers") {
  const std::string text = report(small_profile(1e-3));
  for (const char* part :
       {"! sum_8, attention: attn_q of hidden (8 sums of 8)\n", "--details says", "layers 0 to 1",
        "memory reads 10.00 GB/s", "wait for each other 13 % of the time: worker 1 least, 2 %, worker 2 most, 30 %"}) {
    CAPTURE(part);
    CHECK(contains(text, part));
  }
  CHECK(!contains(text, "because"));
  const std::string details = report(small_profile(1e-3), {.details = true});
  for (const char* part : {"attn_q of hidden (8 sums of 8)\n", "made by model.cpp:12\n", "! because\n"}) {
    CAPTURE(part);
    CHECK(contains(details, part));
  }
  CHECK(contains(details, "worker by worker: 10 %, 2 %, 30 %, 10 %"));
  CHECK(!contains(text, "worker by worker"));
}

TEST_CASE("a stage says how long workers wait in it") {
  Profile profile = small_profile(1e-3);
  profile.plans[0].stages[0].waiting = 0.4e-3;
  CHECK(contains(report(profile), "40 %    0.10     1 %  attention"));
}

TEST_CASE("no line of a report is over 120 columns, and shares that caches give are named so") {
  Profile profile = small_profile(1e-6);  // 100 GB/s where memory has 10
  profile.plans[0].kernels[0].what = std::string(400, 'w') + " of hidden";
  for (int i = 0; i < 60; ++i) profile.plans[0].kernels[0].options += " local(o0,16)";
  for (const bool details : {false, true}) {
    std::istringstream lines(report(profile, {.details = details}));
    for (std::string line; std::getline(lines, line);)
      if (!contains(line, "wwww") || !details) CHECK(line.size() <= 120);
  }
  CHECK(contains(report(profile), " cached "));
}

TEST_CASE("a profile goes into devices, through links and to standard output") {
  const std::string file = scratch().file("linked.json"), link = scratch().file("link.json");
  std::filesystem::create_symlink(file, link);
  const std::vector<std::string> quick = {"profile", "-n", "1", "-r", "1", "--prompt-tokens", "0", "-t", "1"};
  auto arguments = quick;
  arguments.insert(arguments.end(), {"--json", link, "--trace", "/dev/null"});
  REQUIRE(smelt::test::smelt(arguments).exit_code == 0);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(load_profile(file).ok());
  CHECK(std::filesystem::is_character_file("/dev/null"));
  arguments = quick;
  arguments.insert(arguments.end(), {"--json", "-"});
  CHECK(nlohmann::json::parse(smelt::test::smelt(arguments).out).contains("smelt_profile"));
  arguments.back() = "/nowhere/x.json";
  const Outcome refused = smelt::test::smelt(arguments);
  CHECK(refused.exit_code == 1);
  CHECK(contains(refused.err, "/nowhere/x.json"));
}

TEST_CASE("profile shows decode and prefill of the embedded model, saves them and a timeline") {
  const std::string trace = scratch().file("trace.json"), saved = scratch().file("saved.json");
  const Outcome run = smelt::test::smelt(
      {"profile", "-n", "4", "-r", "2", "--prompt-tokens", "20", "-d", "8", "--trace", trace, "--json", saved});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  for (const char* part : {"decode: ", "prefill: ", "a prompt of 20 tokens", "attn_q_a", "experts", "layer", "head"}) {
    CAPTURE(part);
    CHECK(contains(run.out, part));
  }

  const auto events = nlohmann::json::parse(file_text(trace))["traceEvents"];
  int launches = 0, replays = 0, parts = 0;
  double end_of_last = 0;
  for (const auto& e : events) {
    if (e["ph"] != "X") continue;
    CHECK(e["dur"] >= 0);
    CHECK(e["ts"] >= 0);
    CHECK(!e["name"].get<std::string>().empty());
    if (e["cat"] == "replay") {
      ++replays;
      continue;
    }
    if (e["tid"] != 2) {  // a worker
      ++parts;
      continue;
    }
    ++launches;
    CHECK(e["ts"].get<double>() >= end_of_last - 0.002);  // one after the other
    end_of_last = e["ts"].get<double>() + e["dur"].get<double>();
    CHECK(e["args"].contains("kernel"));
  }
  CHECK(replays == 4 + 2 * 2);  // tokens; prompts and their logits
  CHECK(launches > replays);
  CHECK(parts > launches / 8);  // of the first replay of each plan

  const auto profile = load_profile(saved);
  REQUIRE(profile.ok());
  REQUIRE(profile->plans.size() == 2);
  CHECK(profile->plans[0].bytes() > 6e6);  // the weights of a token, at least
  CHECK(profile->plans[0].bytes() < 20e6);
  CHECK(profile->plans[0].seconds() > 0);
  const Outcome compared = smelt::test::smelt({"profile", "--compare", saved, saved});
  CHECK(compared.exit_code == 0);
  CHECK(contains(compared.out, "1.00x  everything"));

  const std::string name = profile->plans[0].kernels[0].name;
  const Outcome kernel = smelt::test::smelt({"profile", "--kernel", name});
  CHECK(kernel.exit_code == 0);
  CHECK(contains(kernel.out, "\n  made by "));
  CHECK(contains(kernel.out, ".cpp:"));
  for (const char* part : {"--- arguments", ": f32 [1, 256]\n", "--- formulas", "--- tree", "--- options",
                           "--- program", "--- LLVM IR", "--- assembly", "decode, "}) {
    CAPTURE(part);
    CHECK(contains(kernel.out, part));
  }
}

TEST_CASE("launches name the lines of the model that multiply with their weights") {
  const auto text_at = [](const std::string& place) {
    const std::string path = SMELT_SOURCE_DIR "/src/model/" + place.substr(0, place.find(':'));
    if (!std::ifstream(path)) return std::string();
    std::istringstream lines(file_text(path));
    std::string line;
    for (int left = std::stoi(place.substr(place.find(':') + 1)); left > 0; --left) std::getline(lines, line);
    return line;
  };
  const GgufFile file = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  const auto session = Session::open(file, {.threads = 1}, {});
  REQUIRE(session.ok());
  int found = 0;
  for (const PlanLaunch& launch : (*session)->loaded().launches(PlanKind::Decode)) {
    CHECK_FALSE(launch.lines.empty());
    for (const LaunchBuffer& buffer : launch.buffers)
      for (const char* weight : {"attn_q_a.weight", "attn_output.weight", "ffn_down_exps.weight"}) {
        if (buffer.name != weight) continue;
        CAPTURE(weight);
        const std::string stem(weight, std::string_view(weight).find('.'));
        const bool is_named = std::any_of(launch.lines.begin(), launch.lines.end(),
                                          [&](const std::string& line) { return contains(text_at(line), stem); });
        CHECK(is_named);
        ++found;
      }
  }
  CHECK(found >= 3);
}

TEST_CASE(
    "the longest contexts have a plan of their own on a GPU, sooner for several sequences, with all heads in a task") {
  // The name of an attention's kernel has its first loops: sequences, tasks of heads, and heads of a task.
  const auto kernels = [](const char* sequences, const char* depth) {
    const Outcome run =
        smelt::test::smelt({"profile", "--synthetic", "glm-4.7-flash:q4_0:1", "--machine", "h200", "-c", "30000",
                            "--parallel", sequences, "-d", depth, "--prompt-tokens", "0", "--all"});
    REQUIRE(run.exit_code == 0);
    return run.out;
  };
  CHECK(contains(kernels("1", "22000"), "reduce_sum_n_3_8_"));
  CHECK(contains(kernels("1", "23000"), "reduce_sum_n_24_"));
  CHECK(contains(kernels("8", "3000"), "reduce_sum_n_8_24_"));
}

TEST_CASE("other forms of a model's blocks, and what they would save on a machine") {
  const std::vector<std::string> flags = {"profile", "--what-if",   "--machine",
                                          "h200",    "--synthetic", "glm-4.7-flash:q4_0"};
  std::vector<std::string> in_floats = flags;
  in_floats.insert(in_floats.end(), {"--activations", "f32", "-d", "4000"});
  const Outcome run = smelt::test::smelt(in_floats);
  CAPTURE(run.out);
  REQUIRE(run.exit_code == 0);
  CHECK(contains(run.out, "NVIDIA H200"));
  CHECK(contains(run.out, "1 block, of layer 0: "));
  CHECK(contains(run.out, "46 blocks, as of layer 1: "));
  CHECK(contains(run.out, "as written"));
  CHECK(contains(run.out, "- contract [1, 768] <- attn_q_a.weight\n"));
  CHECK(contains(run.out, "+ contract [1, 1344] <- concat(attn_q_a.weight, attn_kv_a_mqa.weight)\n"));
  CHECK(contains(run.out, "concat(ffn_gate_inp.weight, ffn_gate_shexp.weight, ffn_up_shexp.weight)"));
  // A launch is as dear as megabytes there.
  CHECK(contains(run.out, "best if products were rounded"));
  CHECK(contains(run.out, "+ contract [1, 2048] <- fold(attn_output.weight, attn_v_b.weight)\n"));
  // With bytes between the products there is no product of two matrices, and the router reads floats.
  const Outcome bytes = smelt::test::smelt(flags);
  CAPTURE(bytes.out);
  REQUIRE(bytes.exit_code == 0);
  CHECK(contains(bytes.out, "concat(ffn_gate_shexp.weight, ffn_up_shexp.weight)"));
  CHECK_FALSE(contains(bytes.out, "fold("));
  CHECK_FALSE(contains(bytes.out, "concat(ffn_gate_inp.weight"));
  const Outcome deep = smelt::test::smelt({"profile", "--what-if", "-c", "16", "-d", "16"});
  CHECK(deep.exit_code == 1);
  CHECK(contains(deep.err, "does not fit a context of 16"));
}

TEST_CASE("what profile cannot do is said in one line") {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"profile", "--kernel", "no_such_kernel"}, "no kernel has this in its name"},
      {{"profile", "-c", "16", "-n", "100"}, "do not fit a context of 16"},
      {{"profile", "--compare", "/nowhere/a.json", "/nowhere/b.json"}, "/nowhere/a.json"},
  };
  for (const auto& [arguments, part] : cases) {
    const Outcome run = smelt::test::smelt(arguments);
    CAPTURE(run.err);
    CHECK(run.exit_code == 1);
    CHECK(contains(run.err, "smelt: "));
    CHECK(contains(run.err, part));
  }
  CHECK(smelt::test::smelt({"profile", "-n", "0"}).exit_code == 2);
  CHECK(smelt::test::smelt({"profile", "--compare", "one.json"}).exit_code == 2);
}
