// `smelt machines`: the machines that kernels can be made for by name, and what the compiler knows of each.
#include "runtime/machines.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/command.h"
#include "app/text_of.h"

namespace smelt {
namespace {

std::string rate_text(double bytes_per_second) {
  return bytes_per_second > 0 ? text_of("%6.0f GB/s", bytes_per_second * 1e-9) : "     ? GB/s";
}

Status list_machines() {
  for (const std::string& name : machine_names()) {
    SMELT_TRY(m, find_machine(name));
    std::printf("%-16s %4lld %-15s %s  %s\n", name.c_str(), static_cast<long long>(m.processors),
                m.has_threads() ? "multiprocessors" : "cores", rate_text(m.bandwidth).c_str(), m.title.c_str());
  }
  return {};
}

Status show_machine(const std::string& name) {
  SMELT_TRY(machine, find_machine(name));
  std::printf("%s: %s, target %s\n", name.c_str(), machine.title.c_str(), machine.target.c_str());
  for (const MachineField& f : fields_of(machine))
    std::printf("  %-23s %-10s %s\n", f.name.c_str(), f.value.c_str(), f.meaning.c_str());
  return {};
}

}  // namespace

Action declare_machines(CLI::App& app) {
  const auto name = std::make_shared<std::string>();
  app.add_option("machine", *name, "show every field of this machine")->type_name("NAME");
  app.footer("What --machine NAME of profile, inspect and replay takes. `host` is this machine.\n");
  return [name]() -> Result<int> {
    SMELT_CHECK(name->empty() ? list_machines() : show_machine(*name));
    return 0;
  };
}

}  // namespace smelt
