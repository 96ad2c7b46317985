// What a failed ENSURE leaves behind.
#include "engine/dump.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "base/ensure.h"
#include "base/ensure_dump.h"
#include "base/options.h"
#include "engine/kernel_builder.h"
#include "engine/replay.h"
#include "engine/tuned_options.h"
#include "runtime/devices.h"
#include "schedule/schedule.h"
#include "support/last_words.h"
#include "support/small_graphs.h"
#include "support/temp_folder.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;

TEST_CASE("a failed ENSURE leaves the kernel that was being made, and replay repeats it") {
  const TempFolder folder;
  ScopedOptions scope([&](Options& o) { o.dump = folder.path(); });
  const Schedule schedule = make_schedule(sink({output(2, linear(input(0, {1, 64}), input(1, {32, 64})))}));
  const std::string text = last_words([&] {
    const EnsureDump outer([] { return std::string("not this one"); });
    const EnsureDump dump([&] { return leave_for_replay(schedule.kernels[0].tree, "broken", {}); });
    ENSURE(1 + 1 == 3, "arithmetic");
  });
  CHECK(text.find("internal error") != std::string::npos);
  CHECK(text.find("`smelt replay " + folder.path() + "/broken.ir` repeats it") != std::string::npos);
  CHECK(text.find("not this one") == std::string::npos);
  const auto report = replay_kernel(folder.path() + "/broken.ir");
  REQUIRE(report.ok());
  CHECK(report->agrees);
}

TEST_CASE("a failure inside of what is left behind does not go round in circles") {
  const std::string text = last_words([&] {
    const EnsureDump dump([]() -> std::string {
      ENSURE(false, "again");
      return "";
    });
    ENSURE(false, "first");
  });
  CHECK(text.find("first") != std::string::npos);
  CHECK(text.find("again") != std::string::npos);
  CHECK(text.find("run again with DUMP=dir") != std::string::npos);
}

TEST_CASE("text that LLVM cannot read leaves what it was made from, from whatever thread") {
  const std::string text = last_words([] {
    const auto device = open_device({.threads = 2, .use_cache = false});
    std::vector<Source> sources;
    for (const char* name : {"first", "second"})
      sources.push_back({.text = "no IR", .entry = name, .leave = [] { return std::string("this is left"); }});
    const EnsureDump nothing({});
    ::_exit((*device)->compile(sources).ok() ? 0 : 1);
  });
  CHECK(text.find("internal error") != std::string::npos);
  CHECK(text.find("this is left") != std::string::npos);
}

TEST_CASE("a program that cannot be rendered, one of several candidates, leaves the options that it was made with") {
  const TempFolder folder;
  ScopedOptions scope([&](Options& o) { o.dump = folder.path(); });
  const Ref tree = make_schedule(sink({output(2, linear(input(0, {1, 64}), input(1, {32, 64})))})).kernels[0].tree;
  const auto device = open_device({.threads = 1, .use_cache = false});
  REQUIRE(device.ok());
  const KernelBuilder builder(**device, {});
  const KernelOpts good(tree->src.size()), bad = *parse_kernel_opts("task(o1)");
  std::vector<Program> programs{builder.program(tree, "candidate", good), builder.program(tree, "candidate", bad)};
  programs[1].code.front().src.push_back(99);
  const std::string text = last_words([&] {
    const auto leave = [&](size_t i) { return leave_for_replay(tree, "candidate", i == 0 ? good : bad); };
    ::_exit(builder.build(programs, leave).ok() ? 0 : 1);
  });
  CHECK(text.find("`smelt replay " + folder.path() + "/candidate.ir` repeats it") != std::string::npos);
  const auto report = replay_kernel(folder.path() + "/candidate.ir");
  REQUIRE(report.ok());
  CHECK(report->text.find("task(o1)") != std::string::npos);
}
