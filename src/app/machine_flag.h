// --machine, of the commands that print what is made for a machine.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace smelt {

// `what`: what the command does with it, for the help.
CLI::Option* declare_machine_flag(CLI::App& app, std::string& machine, const std::string& what);

}  // namespace smelt
