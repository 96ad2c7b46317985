#include "app/completions.h"

#include "app/option_names.h"

namespace smelt {
namespace {

// A name of a model or a file is completed after these, and as an argument of its own.
bool takes_model(const OptionNames& option) { return option.value.starts_with("MODEL"); }

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const OptionNames& option : options_of(command))
    for (const std::string& spelling : option.spellings()) flags.push_back(spelling);
  return flags;
}

// In single quotes, with a colon and brackets kept from zsh, which reads them.
std::string zsh_text(const std::string& text) {
  std::string out = replaced(first_sentence(text), "'", "'\\''");
  for (const char* special : {"[", "]", ":"}) out = replaced(out, special, std::string("\\") + special);
  return out;
}

std::string zsh_option(const OptionNames& option) {
  const std::vector<std::string> spellings = option.spellings();
  std::string line = "        ";
  if (spellings.size() > 1) line += "'(" + joined(spellings, " ") + ")'{" + joined(spellings, ",") + "}";
  line += "'" + (spellings.size() > 1 ? "" : spellings[0]) + "[" + zsh_text(option.description) + "]";
  if (option.takes_value)
    line += ":" + zsh_text(option.value) + ":" + (takes_model(option) ? "_smelt_models" : "_files");
  return line + "' \\\n";
}

std::string fish_text(const std::string& text) {
  return replaced(replaced(first_sentence(text), "\\", "\\\\"), "'", "\\'");
}

std::string fish_option(const std::string& command, const OptionNames& option) {
  std::string line = "complete -c smelt -n '__fish_seen_subcommand_from " + command + "'";
  for (const std::string& name : option.short_names) line += " -s " + name;
  for (const std::string& name : option.long_names) line += " -l " + name;
  if (option.takes_value) line += takes_model(option) ? " -r -a '(smelt list --names)'" : " -r";
  return line + " -d '" + fish_text(option.description) + "'\n";
}

// Whether an argument without '-' is the name of a model on this machine.
bool takes_pulled_name(const std::string& command) { return command == "show" || command == "rm"; }

}  // namespace

std::string bash_completion(const CommandLine& line) {
  std::string out =
      "# bash completion of smelt, made by `smelt completion bash`\n"
      "_smelt() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} flags=\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '" +
      joined(line.names(), " ") +
      " --help --version' -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case $previous in\n"
      "    -m|--model|show|rm) COMPREPLY=($(compgen -W \"$(smelt list --names 2>/dev/null)\" -- \"$current\")) ; "
      "return ;;\n"
      "  esac\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const auto& [command, action] : line.commands)
    out += "    " + command->get_name() + ") flags='" + joined(flags_of(*command), " ") + "' ;;\n";
  return out +
         "  esac\n"
         "  case $current in\n"
         "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$current\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o default -o bashdefault -F _smelt smelt\n";
}

std::string zsh_completion(const CommandLine& line) {
  std::string out =
      "#compdef smelt\n"
      "# zsh completion of smelt, made by `smelt completion zsh`\n"
      "_smelt_models() {\n"
      "  local -a models\n"
      "  models=(${(f)\"$(smelt list --names 2>/dev/null)\"})\n"
      "  compadd -a models\n"
      "  _files\n"
      "}\n"
      "_smelt() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const auto& [command, action] : line.commands)
    out += "    '" + command->get_name() + ":" + zsh_text(command->get_description()) + "'\n";
  out +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=${words[2]}\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n";
  for (const auto& [command, action] : line.commands) {
    out += "    " + command->get_name() + ")\n      _arguments \\\n";
    for (const OptionNames& option : options_of(*command)) out += zsh_option(option);
    out += std::string("        '*:argument:") + (takes_pulled_name(command->get_name()) ? "_smelt_models" : "_files") +
           "'\n      ;;\n";
  }
  return out + "  esac\n}\n_smelt \"$@\"\n";
}

std::string fish_completion(const CommandLine& line) {
  std::string out = "# fish completion of smelt, made by `smelt completion fish`\n";
  for (const auto& [command, action] : line.commands) {
    const std::string name = command->get_name();
    out += "complete -c smelt -n __fish_use_subcommand -a " + name + " -d '" + fish_text(command->get_description()) +
           "'\n";
    for (const OptionNames& option : options_of(*command)) out += fish_option(name, option);
    if (takes_pulled_name(name))
      out += "complete -c smelt -n '__fish_seen_subcommand_from " + name + "' -f -a '(smelt list --names)'\n";
  }
  return out;
}

}  // namespace smelt
