// The command line as a table: every command with its options. Help, shell completions and the manual page are made
// from it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/command.h"

namespace smelt {

struct CommandLine {
  CLI::App app;
  std::vector<std::pair<CLI::App*, Action>> commands;  // in the order of the help

  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App* command(const std::string& name) const;  // null: there is none
  std::vector<std::string> names() const;
};

}  // namespace smelt
