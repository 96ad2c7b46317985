// One dumped kernel again.
#include "engine/replay.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/file.h"
#include "base/options.h"
#include "engine/compile.h"
#include "runtime/devices.h"
#include "support/judge.h"
#include "support/small_graphs.h"
#include "support/temp_folder.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;

namespace {

std::string replay_error(const std::string& path) {
  const auto report = replay_kernel(path);
  return report ? "" : report.error().message;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("every kernel that DUMP leaves can be repeated") {
  TempFolder folder;
  {
    ScopedOptions scope([&](Options& o) { o.dump = folder.path(); });
    const auto device = open_device({.threads = 1, .use_cache = false}).take();
    Compiler compiler(*device, {"chunks"});
    compiler.add_segment(
        sink({output(3, linear(rms_norm(input(0, {1, 64}), input(1, {64})), q4_0(input(2, {32, 2, 18}, DType::U8))))}));
    const Ref chunks = variable("chunks", 1, 4);
    compiler.add_segment(sink({output(
        3, attention(input(0, {2, 32}), input(1, {256, 32}), input(2, {1}, DType::I32), Dim(chunks * 64), 16))}));
    compiler.add_segment(sink({write_rows(input(0, {64, 16}), input(1, {4}, DType::I32), 0, input(2, {4, 16})).ref()}));
    const Tensor chosen = gather(input(1, {8, 16, 2, 18}, DType::U8), input(2, {4}, DType::I32));
    compiler.add_segment(sink({output(3, linear(input(0, {1, 64}), q4_0(reshape(chosen, {64, 2, 18}))))}));
  }
  int kernels = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".ir") continue;
    ++kernels;
    const auto report = replay_kernel(entry.path().string());
    REQUIRE_MESSAGE(report.ok(), report.error().message);
    CHECK_MESSAGE(report->agrees, report->text);
    CHECK(has(report->text, "agrees"));
  }
  CHECK(kernels == 5);
}

TEST_CASE("the options beside a kernel are used, and refused with the reason if they do not fit") {
  TempFolder folder;
  const Ref root = sink({output(2, linear(input(0, {1, 64}), input(1, {32, 64})))});
  REQUIRE(publish_file(folder / "k.ir", print(make_schedule(root).kernels[0].tree)).ok());
  REQUIRE(publish_file(folder / "k.opts", "group(r1.1,8) task(o1)\n").ok());
  const auto report = replay_kernel(folder / "k.ir");
  REQUIRE(report.ok());
  CHECK(has(report->text, "group(r1.1,8) task(o1)"));
  REQUIRE(publish_file(folder / "k.opts", "group(r1.1,7)\n").ok());
  CHECK(has(replay_error(folder / "k.ir"), "group: 7 does not divide axis r1.1 of "));
  REQUIRE(publish_file(folder / "k.opts", "grope(r0,7)\n").ok());
  CHECK(has(replay_error(folder / "k.ir"), "expected name(axis)"));
}

TEST_CASE("what is not a dumped kernel is named") {
  TempFolder folder;
  CHECK(has(replay_error(folder / "missing.ir"), "missing.ir"));
  CHECK(has(replay_error(folder / "k.ll"), "does not end in .ir"));
  REQUIRE(publish_file(folder / "text.ir", "hello\n").ok());
  CHECK(replay_error(folder / "text.ir") != "");
  REQUIRE(publish_file(folder / "graph.ir", print(sink({output(1, input(0, {4}) * 2.0)}))).ok());
  CHECK(has(replay_error(folder / "graph.ir"), "[replay]"));
  REQUIRE(publish_file(folder / "huge.ir",
                       "%0 = param void\n%1 = range i64 4000000000000 i=64 list=[0]\n%2 = mul i64 %1 4\n"
                       "%3 = store void %0 %2 1:f32 %1\n%4 = sink void %3\n%5 = sink void %4\n")
              .ok());
  CHECK(has(replay_error(folder / "huge.ir"), "16 GiB"));
}
