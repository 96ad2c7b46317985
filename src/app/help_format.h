// How `--help` looks: options on the left, their descriptions beside them in lines of at most 100 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace smelt {

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat();

 private:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  // "N=256", "FILE,...", "N,...=512", "A B": the value's form and what it is without the option.
  std::string make_option_opts(const CLI::Option* option) const override;
  // Of a positional, behind "Usage: smelt run": "[words...]", or its form where that has brackets: "[MODEL] [PROMPT]".
  std::string make_option_usage(const CLI::Option* option) const override;
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace smelt
