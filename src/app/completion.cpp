// `smelt completion SHELL`: a script for a shell, or the manual page, to standard output.
#include <cstdio>

#include "app/checks.h"
#include "app/command.h"
#include "app/completions.h"

namespace smelt {
namespace {

std::string text_for(const std::string& reader) {
  const CommandLine line;
  if (reader == "bash") return bash_completion(line);
  if (reader == "zsh") return zsh_completion(line);
  return reader == "fish" ? fish_completion(line) : manual_page(line);
}

}  // namespace

Action declare_completion(CLI::App& app) {
  const auto reader = std::make_shared<std::string>();
  app.add_option("reader", *reader, "bash, zsh or fish; man: the manual page")
      ->type_name("SHELL")
      ->required()
      ->check(one_of({"bash", "zsh", "fish", "man"}));
  app.footer(
      "Examples:\n"
      "  source <(smelt completion bash)                                    for this shell\n"
      "  smelt completion fish > ~/.config/fish/completions/smelt.fish      for all later ones\n"
      "  smelt completion man | man -l -                                    read the manual page\n"
      "\nThe Debian package installs them all.\n");
  return [reader]() -> Result<int> {
    std::fputs(text_for(*reader).c_str(), stdout);
    return 0;
  };
}

}  // namespace smelt
