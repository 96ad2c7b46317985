// What is measured of a processor once: choosing, keeping, measuring anew.
#include "runtime/cpu/measured_cpu.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "runtime/cpu/hint_reader.h"
#include "runtime/cpu/stream_reader.h"
#include "runtime/memory.h"
#include "support/temp_folder.h"

using namespace smelt;

namespace {

constexpr MeasuredCpu kXeon{.streams = 8,
                            .stream_ahead_bytes = 2048,
                            .processor_bandwidth = 1.8e10,
                            .bandwidth = 3e11,
                            .barrier_seconds = 8.2e-7};

}  // namespace

TEST_CASE("more streams are taken where they are clearly faster in both halves of the runs") {
  CHECK(fastest_number({{1, {1.0, 1.0}}, {2, {0.97, 0.96}}, {4, {0.95, 0.96}}, {8, {0.99, 0.97}}}, 1) == 1);
  CHECK(fastest_number({{1, {1.0, 1.0}}, {2, {0.93, 0.92}}, {4, {0.85, 0.86}}, {8, {0.78, 0.79}}}, 1) == 8);
  CHECK(fastest_number({{1, {1.0, 1.0}}, {2, {0.80, 0.81}}, {4, {0.79, 0.80}}, {8, {0.78, 0.79}}}, 1) == 2);
  CHECK(fastest_number({{1, {1.0, 1.0}}, {2, {0.7, 1.0}}, {4, {1.0, 0.7}}, {8, {2.0, 2.0}}}, 1) == 1);  // chance
  CHECK(fastest_number({{1, {1.0, 1.0}}, {2, {1.3, 1.3}}, {4, {2.0, 2.0}}, {8, {2.4, 2.4}}}, 1) == 1);
}

TEST_CASE("what is known of a processor holds unless reads are slower with it, or faster with another number") {
  CHECK(fastest_number({{1, {1.0, 1.0}}, {2, {1.0, 1.0}}, {4, {1.0, 1.0}}, {8, {0.99, 1.01}}}, 8) == 8);
  CHECK(fastest_number({{1, {1.0, 1.0}}, {2, {1.0, 1.0}}, {4, {1.0, 1.0}}, {8, {1.05, 1.01}}}, 8) == 1);
  CHECK(fastest_number({{1, {1.0, 1.0}}, {2, {0.9, 0.9}}, {4, {1.0, 1.0}}, {8, {1.0, 1.0}}}, 8) == 2);
  CHECK(fastest_number({{1, {1.0, 1.0}}, {2, {1.0, 1.0}}, {4, {1.0, 1.0}}, {8, {1.0, 1.0}}}, 3) == 1);
}

TEST_CASE("what was measured reads back the same, for its machine alone") {
  const std::string text = format_measured(kXeon, "a machine");
  CHECK(parse_measured(text, "a machine") == kXeon);
  CHECK(parse_measured(format_measured({}, "m"), "m") == MeasuredCpu{});
  CHECK(!parse_measured(text, "another machine"));
  CHECK(!parse_measured(text, "a"));
  CHECK(!parse_measured("", "a machine"));
  for (size_t cut = 0; cut < text.size(); ++cut) CHECK(!parse_measured(text.substr(0, cut), "a machine"));
  for (const auto& [from, to] :
       {std::pair("streams 8", "streams 3"), std::pair("streams 8", "streams -8"),
        std::pair("bytes 2048", "bytes 2047"), std::pair("1.8e+10", "nan"), std::pair("3.0e+11", "-3.0e+11")}) {
    std::string damaged = text;
    damaged.replace(damaged.find(from), std::string(from).size(), to);
    CHECK(!parse_measured(damaged, "a machine"));
  }
}

TEST_CASE("a machine is measured once, a changed one anew, and none without a folder") {
  const test::TempFolder folder;
  int measured = 0;
  const auto measure = [&] {
    ++measured;
    return kXeon;
  };
  CHECK(kept_or_measured(folder.path(), "one", measure) == kXeon);
  CHECK(kept_or_measured(folder.path(), "one", measure) == kXeon);
  CHECK(measured == 1);
  CHECK(kept_or_measured(folder.path(), "one, other microcode", measure) == kXeon);
  CHECK(measured == 2);
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) std::ofstream(file.path()) << "damaged";
  CHECK(kept_or_measured(folder.path(), "one", measure) == kXeon);
  CHECK(measured == 3);
  CHECK(kept_or_measured("", "one", measure) == MeasuredCpu{});
  CHECK(kept_or_measured(folder.path() + "/nowhere", "one", measure) == MeasuredCpu{});
}

TEST_CASE("this machine is measured in less than a second, and its description has it") {
  const MeasuredCpu m = measure_cpu();
  CHECK(m.bandwidth > 1e8);
  CHECK(m.processor_bandwidth > 1e8);
  CHECK(m.processor_bandwidth <= m.bandwidth);
  CHECK(m.barrier_seconds > 0);
  CHECK(parse_measured(format_measured(m, cpu_identity()), cpu_identity()) == m);  // rounded as it is kept
  Machine machine;
  m.apply_to(machine);
  CHECK(machine.streams == m.streams);
  CHECK(machine.stream_ahead_bytes == m.stream_ahead_bytes);
  CHECK(machine.bandwidth == m.bandwidth);
  CHECK(cpu_identity().find("microcode") != std::string::npos);
}

TEST_CASE("readers of any number of streams stay inside of their memory") {
  const GuardedBuffer buffer(3 * kStreamUnit);
  const void* buffers[] = {buffer.data(), buffer.data() + buffer.size()};
  CHECK(stream_readers().size() == 4);
  for (const StreamReader& reader : stream_readers()) {
    CHECK(kStreamUnit % (reader.streams * kStreamRow) == 0);
    for (int64_t part = 0; part < 5; ++part) reader.entry(buffers, nullptr, part, 5, nullptr, 1);
  }
}

TEST_CASE("readers with hints stay inside of their memory, whatever they ask for") {
  const GuardedBuffer buffer(3 * kStreamUnit);
  const void* buffers[] = {buffer.data(), buffer.data() + buffer.size()};
  REQUIRE(hint_readers().size() == 3);
  CHECK(hint_readers()[0].ahead == 0);
  for (const HintReader& reader : hint_readers())
    for (int64_t part = 0; part < 5; ++part) reader.entry(buffers, nullptr, part, 5, nullptr, 1);
}
