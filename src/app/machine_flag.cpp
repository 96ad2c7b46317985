#include "app/machine_flag.h"

#include <CLI/CLI.hpp>

#include "app/usual_checks.h"
#include "runtime/machines.h"

namespace smelt {

CLI::Option* declare_machine_flag(CLI::App& app, std::string& machine, const std::string& what) {
  std::string names;
  for (const std::string& name : machine_names()) names += (names.empty() ? "" : ", ") + name;
  return app.add_option("--machine", machine, what + ": " + names + "; see `smelt machines`")
      ->type_name("NAME")
      ->check([](const std::string& name) {
        const auto found = find_machine(name);
        return found ? std::string() : without_tag(found.error().message);
      });
}

}  // namespace smelt
