// Machines with other numbers, as the user asks for them.
#include "base/machine_changes.h"

#include <doctest/doctest.h>

using namespace smelt;

TEST_CASE("what follows the name of a machine changes its fields") {
  const ChangedName given = split_changes("h200,local_operations=4096,launch_seconds=2e-6,matrix_units=1");
  CHECK(given.name == "h200");
  Machine machine = *known_machine("h200");
  REQUIRE(change(machine, given.changes).ok());
  CHECK(machine.local_operations == 4096);
  CHECK(machine.launch_seconds == 2e-6);
  CHECK(machine.matrix_units.size() == 1);
  CHECK(split_changes("cuda:1").name == "cuda:1");
  CHECK(split_changes("cuda:1").changes.empty());
}

TEST_CASE("a change that is none says what is wrong with it") {
  Machine machine;
  const auto problem = [&](const char* changes) { return change(machine, changes).error().message; };
  CHECK(problem("cores=3") == "[machine] cores=3: a machine has no such field; `smelt machines NAME` lists them");
  for (const char* changes : {"tasks=", "tasks", "tasks=many", "tasks=-1", "tasks=3x", "isa=1", "matrix_units=x"})
    CHECK(problem(changes) != "");
  CHECK(machine == Machine());
}
