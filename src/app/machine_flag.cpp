#include "app/machine_flag.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runtime/machines.h"

namespace smelt {

CLI::Option* declare_machine_flag(CLI::App& app, std::string& machine, const std::string& what) {
  std::string names;
  for (const std::string& name : machine_names()) names += (names.empty() ? "" : ", ") + name;
  return app.add_option("--machine", machine, what + ": " + names + "; see `smelt machines`")
      ->type_name("NAME")
      ->check([names](const std::string& name) {
        const auto known = machine_names();
        if (std::find(known.begin(), known.end(), name) != known.end()) return std::string();
        return "there is no machine " + name + "; use one of " + names;
      });
}

}  // namespace smelt
