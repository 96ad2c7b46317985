#include "app/option_names.h"

namespace smelt {

std::vector<std::string> OptionNames::spellings() const {
  std::vector<std::string> all;
  for (const std::string& name : short_names) all.push_back("-" + name);
  for (const std::string& name : long_names) all.push_back("--" + name);
  return all;
}

std::vector<OptionNames> options_of(const CLI::App& command) {
  std::vector<OptionNames> all;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() && option->get_lnames().empty() && option->get_snames().empty()) continue;
    all.push_back({.short_names = option->get_snames(),
                   .long_names = option->get_lnames(),
                   .takes_value = option->get_type_size() > 0,
                   .value = option->get_type_name(),
                   .description = option->get_description()});
  }
  return all;
}

std::string arguments_of(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional() || !option->get_lnames().empty()) continue;
    const std::string name = option->get_type_name();
    text += (text.empty() ? "" : " ") + (option->get_required() || name[0] == '[' ? name : "[" + name + "]");
  }
  return text;
}

std::string first_sentence(const std::string& text) { return text.substr(0, text.find_first_of(";\n")); }

}  // namespace smelt
