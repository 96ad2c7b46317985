#include "app/cli.h"

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "app/command_line.h"
#include "app/foreign_flags.h"
#include "app/interrupt.h"
#include "app/model_names.h"
#include "app/usual_checks.h"
#include "base/options.h"

namespace smelt {
namespace {

using Words = std::vector<std::string>;

int usage_error(const std::string& command, const std::string& message) {
  std::fprintf(stderr, "smelt: %s\nTry `smelt %s--help`.\n", message.c_str(),
               command.empty() ? "" : (command + " ").c_str());
  return kExitUsage;
}

int world_error(const Error& error) {
  std::fprintf(stderr, "smelt: %s\n", without_tag(error.message).c_str());
  return kExitWorld;
}

std::string unknown_command(const std::string& word, const CommandLine& line) {
  const std::string meant = nearest(word, line.names());
  return "'" + word + "' is neither a command, nor a file, nor a model on this machine" +
         (meant.empty() ? "" : "; did you mean `smelt " + meant + "`?");
}

std::string listed_words(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Words that no option takes, in the order of the command line.
std::string unexpected(const CLI::App& command) {
  const Words words = command.remaining();
  if (words.empty()) return "there is a word too many";
  if (words[0].size() < 2 || words[0][0] != '-') return "nothing takes '" + listed_words(words) + "'; quote texts";
  Words known;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const std::string flag = words[0].substr(0, words[0].find('='));
  const std::string meant = nearest(flag, known);
  return "there is no option " + flag + (meant.empty() ? "" : "; did you mean " + meant + "?");
}

std::string parse_message(const CLI::App& command, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) return unexpected(command);
  const std::string message = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error))
    return message.substr(0, message.find(':')) + ": its value is missing, or there are too many";
  return message;
}

// `smelt MODEL "prompt"` is `smelt run MODEL "prompt"`.
void put_run_in_front(Words& words, const CommandLine& line) {
  if (words.empty() || words[0].empty() || words[0][0] == '-' || line.command(words[0])) return;
  if (names_a_model(words[0])) words.insert(words.begin(), "run");
}

Result<Words> in_our_words(const Words& words, CLI::App& command) {
  const auto has = [&](const std::string& spelling) { return command.get_option_no_throw(spelling) != nullptr; };
  return in_our_spelling(Words(words.begin() + 1, words.end()), has);
}

// What was printed has reached its reader, or the exit code says that it has not.
int with_output_written(int code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  if (code == kExitInterrupted) return code;
  return world_error({"standard output cannot be written; is the disk full?"});
}

int finish(const Result<int>& outcome) {
  if (outcome) return with_output_written(*outcome);
  // What was stopped has been said where it stopped.
  if (was_interrupted() && outcome.error().message.ends_with("] interrupted")) return kExitInterrupted;
  std::fflush(stdout);
  return world_error(outcome.error());
}

int run_action(const Action& action) {
  if (const Status environment = check_environment(); !environment) {
    std::fprintf(stderr, "smelt: %s\n", without_tag(environment.error().message).c_str());
    return kExitUsage;
  }
  if (const Status usable = check_switches(); !usable) return world_error(usable.error());
  try {
    const int code = finish(action());
    note_idle_switches();
    return code;
  } catch (const std::system_error& refused) {  // of threads without which there is nothing to do
    return world_error(
        Error{"the system refuses a " + std::string(refused.what()) + "; raise its limits (ulimit -u, ulimit -v)"});
  }
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CommandLine line;
  Words words(argv + std::min(argc, 1), argv + argc);
  put_run_in_front(words, line);
  CLI::App* command = words.empty() ? nullptr : line.command(words[0]);
  const std::string name = command ? command->get_name() : "";
  if (command) {
    auto ours = in_our_words(words, *command);
    if (!ours) return usage_error(name, ours.error().message);
    ours->insert(ours->begin(), name);
    words = ours.take();
  } else if (!words.empty() && words[0].size() > 0 && words[0][0] != '-') {
    return usage_error("", unknown_command(words[0], line));
  }
  try {
    line.app.parse(Words(words.rbegin(), words.rend()));  // CLI11 takes the last one first
  } catch (const CLI::Success& help_or_version) {
    return with_output_written(line.app.exit(help_or_version));
  } catch (const CLI::ParseError& error) {
    return usage_error(name, parse_message(command ? *command : line.app, error));
  }
  for (const auto& [sub, action] : line.commands)
    if (sub->parsed()) return run_action(action);
  return usage_error("", "no command given");
}

}  // namespace smelt
