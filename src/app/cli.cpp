#include "app/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/command.h"
#include "app/help_format.h"
#include "app/interrupt.h"
#include "base/options.h"

namespace smelt {
namespace {

struct Command {
  const char* name;
  const char* summary;
  Action (*declare)(CLI::App&);
};

constexpr Command kCommands[] = {
    {"run", "write text after a prompt", declare_run},
    {"inspect", "show what is in a model file: metadata, tensors, bytes per token, memory",
     declare_inspect},
    {"tokenize", "turn text into token ids", declare_tokenize},
    {"logits", "write the logits after a list of token ids", declare_logits},
    {"perplexity", "measure how well a model predicts a text", declare_perplexity},
    {"bench", "measure the speed of prompts and of decoding", declare_bench},
    {"profile", "show where the time goes, kernel by kernel", declare_profile},
    {"tune", "search for faster kernels and keep them for every later start", declare_tune},
    {"replay", "repeat one kernel dumped with DUMP=dir", declare_replay},
};

constexpr const char* kDescription =
    "smelt runs large language models from GGUF files. It compiles the model into machine code\n"
    "for this machine's processor, with its own tensor compiler.\n";

constexpr const char* kExamples =
    "Examples:\n"
    "  smelt run                                   a story by the small model inside the program\n"
    "  smelt run -p \"Once upon a time\" -n 100      the same with your own beginning\n"
    "  smelt run -m model.gguf -f prompt.txt       another model, the prompt from a file\n"
    "  smelt inspect model.gguf                    what is in a file and what it will cost to run\n"
    "\n`smelt COMMAND --help` shows the options of a command.\n";

// llama-bench's spelling, which would be read as `-p g`.
void spell_out_pg(int argc, char** argv) {
  static char spelled_out[] = "--pg";
  if (argc < 2 || std::string_view(argv[1]) != "bench") return;
  for (int i = 2; i < argc; ++i)
    if (std::string_view(argv[i]) == "-pg") argv[i] = spelled_out;
}

int usage_error(const CLI::App& app, const std::string& message) {
  const auto used = app.get_subcommands();
  const std::string command = used.empty() ? "" : used.front()->get_name() + " ";
  std::fprintf(stderr, "smelt: %s\nTry `smelt %s--help`.\n", message.c_str(), command.c_str());
  return kExitUsage;
}

int finish(const Result<int>& outcome) {
  if (outcome) return *outcome;
  // What was stopped has been said where it stopped.
  if (was_interrupted() && outcome.error().message.ends_with("] interrupted"))
    return kExitInterrupted;
  std::fprintf(stderr, "smelt: %s\n", outcome.error().message.c_str());
  return kExitWorld;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  if (const Status environment = check_environment(); !environment) {
    std::fprintf(stderr, "smelt: %s\n", environment.error().message.c_str());
    return kExitUsage;
  }
  CLI::App app{kDescription, "smelt"};
  app.footer(kExamples + ("\nEnvironment variables:\n" + options_help()));
  app.set_version_flag("--version", "smelt " SMELT_VERSION);
  app.require_subcommand(0, 1);  // none: our own message
  app.formatter(std::make_shared<HelpFormat>());
  std::vector<std::pair<CLI::App*, Action>> commands;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->group("Commands");
    sub->option_defaults()->always_capture_default();
    commands.emplace_back(sub, command.declare(*sub));
  }
  spell_out_pg(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error.what());
  }
  for (const auto& [sub, action] : commands) {
    if (sub->parsed()) return finish(action());
  }
  return usage_error(app, "no command given");
}

}  // namespace smelt
