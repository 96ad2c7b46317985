// Machines as data: those with a name, and the one that a CPU is.
#include "base/machine.h"

#include <doctest/doctest.h>

#include <set>

using namespace smelt;

TEST_CASE("known machines have different names and are found by them") {
  std::set<std::string> names;
  for (const Machine& m : known_machines()) {
    CHECK(names.insert(m.name).second);
    CHECK(known_machine(m.name) == m);
  }
  for (const char* name :
       {"h100", "h200", "m1", "m2-pro", "m3-max", "m3-ultra", "m4-max", "zen4", "sapphire-rapids", "neoverse-v1"})
    CHECK(names.contains(name));
  CHECK(!known_machine("z80"));
}

TEST_CASE("levels of a machine fit into each other") {
  for (const Machine& m : known_machines()) {
    CAPTURE(m.name);
    CHECK(m.block_threads % m.warp_threads == 0);
    CHECK(m.processor_threads % m.warp_threads == 0);
    CHECK(m.processor_threads >= m.block_threads);
    CHECK(m.processor_memory_bytes >= m.block_memory_bytes);
    CHECK(m.has_threads() == (m.warp_threads > 1));
    CHECK(m.vector_bytes % 4 == 0);
  }
}

TEST_CASE("the text of a machine tells any two apart") {
  Machine m;
  const std::string text = to_string(m);
  CHECK(to_string(Machine()) == text);
  m.streams = 8;
  CHECK(to_string(m) != text);
  m = Machine();
  m.matrix_units = known_machine("sapphire-rapids")->matrix_units;
  CHECK(to_string(m) != text);
}

TEST_CASE("every field has a name, a value and a meaning") {
  const Machine m = *known_machine("sapphire-rapids");
  size_t units = 0;
  for (const MachineField& f : fields_of(m)) {
    CAPTURE(f.name);
    CHECK(!f.value.empty());
    CHECK(!f.meaning.empty());
    units += f.name == "matrix unit";
  }
  CHECK(units == 2);  // of bytes, and of halves
}

TEST_CASE("as many rows of a weight lie side by side as lanes of a vector, or threads of a sector, read together") {
  CHECK(known_machine("zen4")->rows_side_by_side() == 16);
  CHECK(known_machine("neoverse-v1")->rows_side_by_side() == 4);
  CHECK(known_machine("h200")->rows_side_by_side() == 8);
}

TEST_CASE("arithmetic of a machine is that of all lanes of all processors") {
  const Machine cpu{.processors = 4, .vector_bytes = 32, .cycles_per_second = 1e9, .vectors_per_cycle = 2};
  CHECK(cpu.operations_per_second() == 2 * 4 * 8 * 2 * 1e9);
  CHECK(known_machine("h100")->operations_per_second() > 40e12);
  CHECK(known_machine("h100")->operations_per_second() < 80e12);
}

TEST_CASE("AMX that the system refuses is no matrix unit") {
  CpuTarget cpu{.triple = "x86_64-unknown-linux-gnu", .amx_int8 = true};
  CHECK(unit_for_bytes(machine_of(cpu)));
  cpu.amx_refused = true;
  CHECK(!unit_for_bytes(machine_of(cpu)));
}
