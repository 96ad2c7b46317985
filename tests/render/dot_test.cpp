// Sums of products of bytes and look-ups of bytes: compiled code gives the bits of the evaluator, with every
// instruction that this machine has for them, and the code of the other processors compiles.
#include <doctest/doctest.h>

#include "support/byte_programs.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

namespace {

// All that this machine runs, and its own instructions at narrower registers.
std::vector<CpuTarget> dot_targets() {
  std::vector<CpuTarget> targets = runnable_targets();
  const CpuTarget& host = host_target();
  if (host.avx_vnni) targets.push_back(named_target("alderlake").take());
  if (!host.avx512) return targets;
  targets.push_back(named_target("x86-64-v4").take());
  for (int bytes : {32, 16}) {
    targets.push_back(host);
    targets.back().vector_bytes = bytes;
  }
  return targets;
}

}  // namespace

TEST_CASE("sums of products of bytes are exact with every instruction for them") {
  for (int64_t greatest : {1, 15, 63, 127, 255})
    for (int lanes : kDotLanes)
      for (bool broadcast : {false, true}) {
        const Buffers buffers{random_bytes(1, -128, 127), random_bytes(2, 0, static_cast<int>(greatest)),
                              random_bytes(3, -128, 127), Bytes(4 * kWords)};
        const Program program = dots(lanes, greatest, broadcast);
        const Buffers expected = evaluated(program, buffers);
        for (const CpuTarget& target : dot_targets()) {
          CAPTURE(target.cpu);
          CAPTURE(greatest);
          CAPTURE(lanes);
          CHECK(compiled(program, buffers, {}, 1, target)[3] == expected[3]);
        }
      }
}

TEST_CASE("sums that share their signed bytes are exact with every instruction") {
  for (int64_t greatest : {127, 255})
    for (int lanes : kDotLanes) {
      const int most = static_cast<int>(greatest);
      const Buffers buffers{random_bytes(1, -128, 127), random_bytes(2, 0, most), random_bytes(3, 0, most),
                            random_bytes(4, -128, 127), Bytes(4 * kWords)};
      const Program program = dots_of_one(lanes, greatest);
      const Buffers expected = evaluated(program, buffers);
      for (const CpuTarget& target : dot_targets()) {
        CAPTURE(target.cpu);
        CAPTURE(greatest);
        CAPTURE(lanes);
        CHECK(compiled(program, buffers, {}, 1, target)[4] == expected[4]);
      }
    }
}

TEST_CASE("sums that go on from one another are exact with every instruction, at the extremes, too") {
  constexpr int kTerms = 9;
  const auto check = [](int64_t greatest, int lanes, int extreme, bool keeps) {
    CAPTURE(greatest);
    CAPTURE(lanes);
    CAPTURE(extreme);
    const Buffers buffers = dots_in_a_row_operands(greatest, kTerms, extreme);
    const Program program = dots_in_a_row(lanes, greatest, kTerms, keeps);
    const Buffers expected = evaluated(program, buffers);
    for (const CpuTarget& target : dot_targets()) {
      CAPTURE(target.cpu);
      CHECK(compiled(program, buffers, {}, 1, target).back() == expected.back());
    }
  };
  for (int64_t greatest : {1, 15, 31, 63, 127, 255}) {
    for (int lanes : {1, 8, 12}) check(greatest, lanes, 0, false);
    for (int extreme : {-128, 127}) check(greatest, 8, extreme, false);
    check(greatest, 8, 0, true);
  }
}

namespace {

// How often an instruction is written in the code for AVX2.
int times(const Program& program, const std::string& instruction) {
  const CpuTarget target = named_target("x86-64-v3").take();
  const std::string text = assembly(Source{render_llvm(program, machine_of(target)), program.name}, target);
  int found = 0;
  for (size_t at = text.find(instruction); at != std::string::npos; at = text.find(instruction, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("without sums of four bytes, as many sums of two as fit 16 bits become words together") {
  constexpr std::pair<int64_t, int> kFit[] = {{3, 16}, {15, 8}, {16, 8}, {31, 4}, {42, 3}, {63, 2}, {64, 2}, {65, 1}};
  for (const auto& [greatest, fit] : kFit) {
    CAPTURE(greatest);
    CHECK(times(dots_in_a_row(8, greatest, 16), "vpmaddubsw") == 16);
    CHECK(times(dots_in_a_row(8, greatest, 16), "vpmaddwd") == (16 + fit - 1) / fit);
  }
  CHECK(times(dots_in_a_row(8, 15, 16, true), "vpmaddwd") == 16);  // all of them are read
}

TEST_CASE("without sums of four bytes, sums that share them multiply numbers of 16 bits, two products each") {
  CHECK(times(dots_of_one(8, 255), "vpmaddubsw") == 0);
  CHECK(times(dots_of_one(8, 255), "vpmaddwd") == 4);
  CHECK(times(dots(8, 255, false), "vpmaddubsw") == 2);
  CHECK(times(dots_of_one(8, 15), "vpmaddubsw") == 2);
}

TEST_CASE("processors with other instructions for sums of bytes use theirs") {
  const std::pair<std::string, std::string> wanted[] = {{"sapphirerapids", "vpdpbusd"}, {"alderlake", "vpdpbusd"},
                                                        {"x86-64-v4", "vpmaddubsw"},    {"x86-64-v3", "vpmaddubsw"},
                                                        {"x86-64-v2", "pmaddubsw"},     {"neoverse-n1", "sdot"},
                                                        {"neoverse-v1", "usdot"},       {"aarch64", "mla"}};
  for (const auto& [name, instruction] : wanted) {
    CAPTURE(name);
    const CpuTarget target = named_target(name).take();
    for (int64_t greatest : {15, 255}) {
      const Program program = dots(target.vector_bytes / 4, greatest, false);
      const Source source{render_llvm(program, machine_of(target)), program.name};
      CHECK(assembly(source, target).find(instruction) != std::string::npos);
    }
  }
}

TEST_CASE("the two numbers of 16 bits in a word are multiplied and added apart") {
  for (int lanes : kDotLanes) {
    CAPTURE(lanes);
    const Buffers buffers{random_bytes(5, 0, 255), random_bytes(6, 0, 255), random_bytes(7, 0, 255), Bytes(4 * kWords)};
    const Program program = mads(lanes);
    const Buffers expected = evaluated(program, buffers);
    for (const CpuTarget& target : runnable_targets())
      CHECK(compiled(program, buffers, {}, 1, target)[3] == expected[3]);
  }
}

TEST_CASE("each byte of a word is looked up") {
  for (const auto& table : byte_tables())
    for (int lanes : kDotLanes) {
      CAPTURE(lanes);
      const Buffers buffers{random_bytes(4, 0, static_cast<int>(table.size()) - 1), Bytes(4 * kWords)};
      const Program program = look_ups(lanes, table);
      const Buffers expected = evaluated(program, buffers);
      for (const CpuTarget& target : runnable_targets())
        CHECK(compiled(program, buffers, {}, 1, target)[1] == expected[1]);
    }
}
