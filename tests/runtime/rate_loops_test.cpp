// Loops that measure how much arithmetic a processor can do hold the instruction that they are about, as often as they
// say: what LLVM could leave out or do once would be counted all the same.
#include "runtime/cpu/rate_loops.h"

#include <doctest/doctest.h>

#include <sstream>

#include "runtime/llvm/compile.h"
#include "runtime/target.h"

using namespace smelt;

namespace {

int lines_with(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(part) != std::string::npos;
  return count;
}

std::string assembly_of(const std::optional<RateLoop>& loop, const CpuTarget& target) {
  REQUIRE(loop.has_value());
  return assembly({.text = loop->text, .entry = "rate"}, target);
}

}  // namespace

TEST_CASE("loops of arithmetic hold the instructions that they measure, and keep all in registers") {
  const struct {
    const char *target, *multiply_add, *byte_dot;
    int chains;
  } kinds[] = {{"x86-64-v2", "mulps", "pmaddubsw", 12},   {"x86-64-v3", "vfmadd", "vpmaddubsw", 12},
               {"x86-64-v4", "vfmadd", "vpmaddubsw", 16}, {"znver4", "vfmadd", "vpdpbusd", 16},
               {"alderlake", "vfmadd", "vpdpbusd", 12},   {"sapphirerapids", "vfmadd", "vpdpbusd", 16},
               {"neoverse-n1", "fmla", "sdot", 16},       {"neoverse-v1", "fmla", "usdot", 16}};
  for (const auto& kind : kinds) {
    CAPTURE(kind.target);
    const CpuTarget target = *named_target(kind.target);
    const Machine machine = machine_of(target);
    const std::string floats = assembly_of(multiply_add_loop(machine), target),
                      bytes = assembly_of(byte_dot_loop(machine), target);
    CHECK(lines_with(floats, kind.multiply_add) == kind.chains);
    CHECK(lines_with(bytes, kind.byte_dot) == kind.chains);
    for (const char* stack : {"rsp", "rbp", "[sp"}) {
      CHECK(lines_with(floats, stack) == 0);
      CHECK(lines_with(bytes, stack) == 0);
    }
    CHECK(byte_dot_loop(machine)->operations ==
          2.0 * kind.chains * 200'000 * static_cast<double>(machine.byte_dot_bytes));
  }
  CHECK(!byte_dot_loop(machine_of(*named_target("aarch64"))));
}

TEST_CASE("a loop of the matrix unit multiplies tiles, where there is one") {
  const CpuTarget target = *named_target("sapphirerapids");
  const std::string text = assembly_of(matrix_unit_loop(machine_of(target)), target);
  CHECK(lines_with(text, "tdpbusd") == 4);
  CHECK(lines_with(text, "ldtilecfg") == 1);
  CHECK(lines_with(text, "tilerelease") == 1);
  CHECK(!matrix_unit_loop(machine_of(*named_target("znver4"))));
  CHECK(!matrix_unit_loop(machine_of(*named_target("aarch64"))));
}
