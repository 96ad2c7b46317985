// Completion scripts for shells, and the manual page, made from the table of commands.
#pragma once

#include <string>

#include "app/command_line.h"

namespace smelt {

std::string bash_completion(const CommandLine& line);
std::string zsh_completion(const CommandLine& line);
std::string fish_completion(const CommandLine& line);

// For man(1).
std::string manual_page(const CommandLine& line);

}  // namespace smelt
