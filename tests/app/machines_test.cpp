// --machine: what kernels become on machines that are not here, and what is measured of the one that is.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/process.h"
#include "app/profile_data.h"
#include "base/machine.h"
#include "support/effort.h"
#include "support/machine_kinds.h"

using namespace smelt;
using smelt::test::Outcome;
using smelt::test::scratch;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

// Without the breaks of wrapped text.
std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += word + " ";
  return out;
}

std::string saved_profile(const std::string& machine, const std::vector<std::string>& more = {}) {
  const std::string path = scratch().file("profile-" + machine + ".json");
  std::vector<std::string> arguments = {"profile", "--machine", machine, "--prompt-tokens", "20", "--json", path};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome run = smelt::test::smelt(arguments);
  CAPTURE(machine);
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  const std::string text = in_one_line(run.out);
  CHECK(contains(text, "estimated for " + machine));
  CHECK(contains(text, "where nothing was run"));
  return path;
}

}  // namespace

TEST_CASE("smelt machines lists all, and shows every field of one") {
  const Outcome all = smelt::test::smelt({"machines"});
  CHECK(all.exit_code == 0);
  for (const Machine& m : known_machines()) {
    CHECK(contains(all.out, m.title));
    const Outcome one = smelt::test::smelt({"machines", m.name});
    CHECK(one.exit_code == 0);
    for (const MachineField& f : fields_of(m)) CHECK(contains(one.out, f.meaning));
  }
  CHECK(contains(all.out, "host"));
  const Outcome unknown = smelt::test::smelt({"machines", "z80"});
  CHECK(unknown.exit_code == 1);
  CHECK(contains(unknown.err, "h100"));
}

TEST_CASE("profile estimates every kind of machine without running anything") {
  for (const Machine& m : test::some(test::machine_kinds())) {
    const auto profile = load_profile(saved_profile(m.name));
    REQUIRE(profile.ok());
    CHECK(profile->estimated_for.starts_with(m.name));
    REQUIRE(profile->plans.size() == 2);
    CHECK(profile->plans[0].name == "decode");
    CHECK(profile->plans[1].tokens == 20);
    CHECK(profile->plans[0].bytes() > 6e6);  // the weights of a token, at least
    CHECK(profile->plans[0].bytes() < 20e6);
    for (const ProfiledPlan& plan : profile->plans)
      for (const ProfiledKernel& k : plan.kernels) {
        CHECK(k.seconds_per_call() >= std::max(m.launch_seconds, m.barrier_seconds));
        CHECK(k.seconds_per_call() < 1);
        CHECK(k.tasks > 0);
      }
  }
}

TEST_CASE("an estimate reads no weights: a model of many gigabytes is estimated in little memory") {
  const auto profile = load_profile(
      saved_profile("sapphire-rapids", {"--synthetic", "deepseek-v2-lite:q4_0:3", "--prompt-tokens", "0"}));
  REQUIRE(profile.ok());
  CHECK(profile->model == "deepseek-v2-lite:q4_0:3");
  REQUIRE(profile->plans.size() == 1);
  CHECK(profile->plans[0].bytes() > 1e8);
}

TEST_CASE("a kernel is shown in all its forms for a machine that is not here") {
  const auto profile = load_profile(saved_profile("h100"));
  REQUIRE(profile.ok());
  const std::string name = profile->plans[0].kernels[0].name;
  const Outcome gpu = smelt::test::smelt({"profile", "--machine", "h100", "--kernel", name});
  CHECK(gpu.exit_code == 0);
  for (const char* part : {"--- formulas", "--- tree", "--- options", "--- program", "--- LLVM IR", ".target sm_90a"})
    CHECK(contains(gpu.out, part));
  const auto server = load_profile(saved_profile("neoverse-v1"));
  REQUIRE(server.ok());
  const Outcome arm =
      smelt::test::smelt({"profile", "--machine", "neoverse-v1", "--kernel", server->plans[0].kernels[0].name});
  CHECK(arm.exit_code == 0);
  CHECK(contains(arm.out, "\tret\n"));
  const auto apple = load_profile(saved_profile("m3-max"));
  REQUIRE(apple.ok());
  const Outcome metal =
      smelt::test::smelt({"profile", "--machine", "m3-max", "--kernel", apple->plans[0].kernels[0].name});
  CHECK(metal.exit_code == 0);
  for (const char* part : {"--- arguments\n0  ", "--- program", "--- Metal Shading Language", "kernel void "})
    CHECK(contains(metal.out, part));
  CHECK(!contains(metal.out, "--- assembly"));
}

TEST_CASE("DEBUG shows schedule and kernels of another machine") {
  const Outcome run = smelt::test::smelt({"profile", "--machine", "h100", "--prompt-tokens", "0"},
                                         {.environment = {"DEBUG=4", "DEBUG_KERNEL=softmax_sum"}});
  CHECK(run.exit_code == 0);
  for (const char* part : {"--- schedule of ", "options:\n", " program", "ptx_kernel"}) {
    CAPTURE(part);
    CHECK(contains(run.err, part));
  }
}

TEST_CASE("a dumped kernel is replayed on paper for another machine") {
  const std::string folder = scratch().file("dump-for-machines");
  REQUIRE(smelt::test::smelt({"run", "-p", "Once", "-n", "1"}, {.environment = {"DUMP=" + folder}}).exit_code == 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".ir") continue;
    const std::string moved = scratch().file(entry.path().filename());  // without the options of this machine
    std::filesystem::copy_file(entry.path(), moved);
    const Outcome run = smelt::test::smelt({"replay", moved, "--machine", "h200"});
    CAPTURE(run.err);
    CHECK(run.exit_code == 0);
    CHECK(contains(run.out, "--- assembly"));
    CHECK(contains(run.out, ".target sm_90a"));
    break;
  }
}

TEST_CASE("inspect says what the memory of a machine allows") {
  const Outcome run = smelt::test::smelt({"inspect", "--machine", "h100"});
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "ON h100"));
  CHECK(contains(run.out, "tok/s for one sequence, by 3100 GB/s"));
  const auto json = nlohmann::json::parse(smelt::test::smelt({"inspect", "--machine", "h100", "--json"}).out);
  CHECK(json["machine"]["fits"] == true);
  CHECK(json["machine"]["tokens_per_second_at_most"].get<double>() > 1e5);
}

TEST_CASE("an unknown machine is a usage error that lists the known ones") {
  const std::vector<std::string> commands[] = {
      {"profile", "--machine", "z80"}, {"inspect", "--machine", "z80"}, {"replay", "x.ir", "--machine", "z80"}};
  for (const auto& arguments : commands) {
    const Outcome run = smelt::test::smelt(arguments);
    CHECK(run.exit_code == 2);
    for (const Machine& m : known_machines()) CHECK(contains(run.err, m.name));
  }
}

TEST_CASE("a model of random weights is timed on this machine, too") {
  const Outcome run = smelt::test::smelt({"profile", "--synthetic", "tiny-glm", "-n", "2", "--prompt-tokens", "0"});
  CAPTURE(run.err);
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "tiny-glm"));
  CHECK(contains(run.out, "decode: "));
  const Outcome text = smelt::test::smelt({"profile", "--synthetic", "tiny-glm", "--prompt", "Once"});
  CHECK(text.exit_code == 1);
  CHECK(contains(text.err, "use --prompt-tokens"));
}

TEST_CASE("behind a comma a machine gets other numbers") {
  const Outcome run = smelt::test::smelt({"machines", "h200,tasks=264"});
  CHECK(run.exit_code == 0);
  CHECK(contains(in_one_line(run.out), "tasks 264 a nest should"));
  CHECK(smelt::test::smelt({"profile", "--machine", "h200,cores=3"}).exit_code == 2);
  CHECK(contains(smelt::test::smelt({"bench", "--device", "cpu,tasks=many"}).err, "tasks=many"));
}

TEST_CASE("what was measured of this machine is kept, shown and measured again on request") {
  const std::string cache = scratch().file("cache-of-measures");
  const smelt::test::RunOptions own{.environment = {"SMELT_CACHE=" + cache}};
  const Outcome first = smelt::test::smelt({"machines", "host"}, own);
  CHECK(first.exit_code == 0);
  std::filesystem::path kept;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) kept = entry.path();
  const std::string text = text_of(kept);
  CHECK(text.starts_with("smelt machine 3\n"));
  CHECK(smelt::test::smelt({"machines", "host"}, own).out == first.out);

  const size_t at = text.find("streams ");
  std::string other = text;
  other.replace(at, other.find('\n', at) - at, "streams 4");
  std::ofstream(kept) << other;
  CHECK(contains(smelt::test::smelt({"devices"}, own).out, "kernels are made for 4 streams"));
  CHECK(smelt::test::smelt({"devices", "--measure"}, own).exit_code == 0);
  CHECK(text_of(kept).starts_with(text.substr(0, at)));
  const Outcome off = smelt::test::smelt({"devices", "--measure"}, {.environment = {"SMELT_CACHE=off"}});
  CHECK(off.exit_code == 1);
  CHECK(contains(off.err, "cannot be kept"));
}

TEST_CASE("logits have the same bits for any number of streams, while kernels differ") {
  const std::string cache = scratch().file("cache-of-streams");
  const smelt::test::RunOptions own{.environment = {"SMELT_CACHE=" + cache}};
  REQUIRE(smelt::test::smelt({"machines", "host"}, own).exit_code == 0);
  std::filesystem::path kept;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) kept = entry.path();
  const std::string text = text_of(kept);
  const size_t at = text.find("streams ");
  std::vector<std::string> logits, options;
  for (const char* streams : {"streams 1", "streams 8"}) {
    std::string changed = text;
    changed.replace(at, changed.find('\n', at) - at, streams);
    std::ofstream(kept, std::ios::trunc) << changed;
    const std::string out = scratch().file(std::string("logits of ") + streams);
    REQUIRE(smelt::test::smelt({"logits", "--ids", "1,2,3,4,5", "-o", out}, own).exit_code == 0);
    logits.push_back(text_of(out));
    options.push_back(
        smelt::test::smelt({"profile", "--machine", "host", "--prompt-tokens", "0", "--all", "--details"}, own).out);
  }
  CHECK(!logits[0].empty());
  CHECK(logits[0] == logits[1]);
  CHECK(options[0] != options[1]);
}
