// `smelt list`, `show` and `rm`: the models on this machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "app/checks.h"
#include "app/command.h"
#include "app/inspect.h"
#include "base/progress.h"
#include "hub/hub_folder.h"

namespace smelt {
namespace {

Error not_there(const std::string& name) {
  return Error{"[hub] " + name + ": not on this machine; `smelt list` shows what is"};
}

int list_names() {
  for (const PulledModel& m : pulled_models()) std::printf("%s\n", m.name.c_str());
  return 0;
}

int list_models() {
  const std::vector<PulledModel> models = pulled_models();
  size_t width = 4;
  for (const PulledModel& m : models) width = std::max(width, m.name.size());
  if (!models.empty()) std::printf("%-*s  %9s  %s\n", static_cast<int>(width), "name", "size", "file");
  for (const PulledModel& m : models)
    std::printf("%-*s  %9s  %s%s\n", static_cast<int>(width), m.name.c_str(), bytes_text(m.bytes).c_str(),
                m.file().c_str(),
                m.paths.size() > 1 ? (" and " + std::to_string(m.paths.size() - 1) + " more").c_str() : "");
  if (models.empty()) std::fprintf(stderr, "no model on this machine yet; `smelt pull glm-4.7-flash` fetches one\n");
  return 0;
}

Result<int> show(const std::string& name) {
  SMELT_TRY(found, find_pulled(name));
  if (!found) return not_there(name);
  for (const std::string& path : found->paths) std::printf("%s\n", path.c_str());
  if (const Status shown = inspect({.model = found->file()}); !shown) return shown.error();
  return 0;
}

Result<int> remove(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    SMELT_TRY(found, find_pulled(name));
    if (!found) return not_there(name);
    SMELT_TRY(freed, remove_pulled(*found));
    std::printf("removed %s, %s\n", name.c_str(), bytes_text(freed).c_str());
  }
  return 0;
}

}  // namespace

Action declare_list(CLI::App& app) {
  const auto names = std::make_shared<bool>(false);
  app.add_flag("--names", *names, "print names alone");
  app.footer("Names of this list work wherever a command takes a file. `smelt pull` fetches more.\n");
  return [names]() -> Result<int> { return *names ? list_names() : list_models(); };
}

Action declare_show(CLI::App& app) {
  const auto name = std::make_shared<std::string>();
  app.add_option("name", *name, "a model, as `smelt list` names it")->type_name("NAME")->required();
  return [name] { return show(*name); };
}

Action declare_rm(CLI::App& app) {
  const auto names = std::make_shared<std::vector<std::string>>();
  app.add_option("name", *names, "models, as `smelt list` names them")->type_name("NAME")->required();
  app.footer("Files that other models of the same repository use stay.\n");
  return [names] { return remove(*names); };
}

}  // namespace smelt
