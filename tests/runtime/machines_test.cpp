// Machines by name, and the device that makes kernels for them without being there.
#include "runtime/machines.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/kernels.h"
#include "runtime/target.h"

using namespace smelt;

TEST_CASE("machines are found by name, and an unknown name lists them") {
  for (const std::string& name : machine_names()) {
    CAPTURE(name);
    CHECK(find_machine(name).ok());
    CHECK(open_null_device(name).ok());
  }
  CHECK(find_machine("host")->name == host_target().cpu);
  const auto unknown = find_machine("z80");
  REQUIRE(!unknown.ok());
  for (const std::string& name : machine_names()) CHECK(unknown.error().message.find(name) != std::string::npos);
  CHECK(open_null_device("z80").error().message == unknown.error().message);
}

TEST_CASE("a machine that is not here gives assembly of its own, and runs nothing") {
  const auto zen = open_null_device("zen4").take(), arm = open_null_device("neoverse-v1").take();
  const Source source = test::scale_kernel();
  CHECK(zen->assembly(source).find("retq") != std::string::npos);
  CHECK(arm->assembly(source).find("retq") == std::string::npos);
  CHECK(arm->assembly(source).find("ret") != std::string::npos);
  CHECK(open_null_device("m3-max").take()->assembly(source).empty());
  CHECK(zen->workers() == 2);
  for (const Error& e : {zen->allocate(64, "weights").error(), zen->compile({&source, 1}).error(),
                         zen->capture({}).error(), zen->memory_reader().error()})
    CHECK(e.message.find("zen4: kernels are only made for this machine") != std::string::npos);
}
