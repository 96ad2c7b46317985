// What help, completions and the manual say of an option.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace smelt {

struct OptionNames {
  std::vector<std::string> short_names;  // "m"
  std::vector<std::string> long_names;   // "model"
  bool takes_value = false;
  std::string value;  // "FILE"
  std::string description;
  std::vector<std::string> spellings() const;  // "-m", "--model"
};

// The options of a command that begin with '-', --help among them.
std::vector<OptionNames> options_of(const CLI::App& command);

// Its arguments without '-', as a usage line shows them: "[MODEL] [PROMPT]".
std::string arguments_of(const CLI::App& command);

// "a model, where ..." without what would end a line or a sentence early.
std::string first_sentence(const std::string& text);

}  // namespace smelt
