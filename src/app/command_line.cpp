#include "app/command_line.h"

#include "app/help_format.h"
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
    {"chat", "talk with a model, in the terminal or with one question", declare_chat},
    {"serve", "answer other programs over HTTP, as OpenAI's API does, and show a web page", declare_serve},
    {"inspect", "show what is in a model file: metadata, tensors, bytes per token, memory", declare_inspect},
    {"tokenize", "turn text into token ids", declare_tokenize},
    {"detokenize", "turn token ids into text", declare_detokenize},
    {"template", "show what a chat becomes before a model sees it", declare_template},
    {"logits", "write the logits after a list of token ids", declare_logits},
    {"perplexity", "measure how well a model predicts a text", declare_perplexity},
    {"imatrix", "measure over a text which columns of matrices matter, for quantize", declare_imatrix},
    {"quantize", "write a model file with its weights in other types", declare_quantize},
    {"bench", "measure the speed of prompts and of decoding", declare_bench},
    {"profile", "show where the time goes, kernel by kernel", declare_profile},
    {"viz", "show in a browser what the compiler does and where the time goes", declare_viz},
    {"tune", "search for faster kernels and keep them for every later start", declare_tune},
    {"pull", "fetch a model by name", declare_pull},
    {"list", "list the models on this machine", declare_list},
    {"show", "show what is in a model on this machine, and where it lies", declare_show},
    {"rm", "remove a model from this machine", declare_rm},
    {"cache", "show what smelt keeps on the disk, and clear it", declare_cache},
    {"completion", "write a completion script for a shell, or the manual page", declare_completion},
    {"devices", "list what kernels can run on here, with its bandwidth", declare_devices},
    {"machines", "list the machines that kernels can be made for, or show one of them", declare_machines},
    {"replay", "repeat one kernel dumped with DUMP=dir", declare_replay},
};

constexpr const char* kDescription =
    "smelt runs large language models from GGUF files. It compiles the model into machine code\n"
    "for the processor or the GPU that it runs on, with its own tensor compiler.\n";

constexpr const char* kExamples =
    "Examples:\n"
    "  smelt run                                   a story by the small model inside the program\n"
    "  smelt run -p \"Once upon a time\" -n 100      the same with your own beginning\n"
    "  smelt run -m model.gguf -f prompt.txt       another model, the prompt from a file\n"
    "  smelt pull glm-4.7-flash                    fetch a model; its name then works as a file does\n"
    "  smelt model.gguf \"Once upon a time\"         the same in short\n"
    "  smelt inspect model.gguf                    what is in a file and what it will cost to run\n"
    "\n`smelt COMMAND --help` shows the options of a command.\n";

}  // namespace

CommandLine::CommandLine() : app(kDescription, "smelt") {
  app.footer(kExamples + ("\nEnvironment variables:\n" + options_help()));
  app.set_version_flag("--version", "smelt " SMELT_VERSION);
  app.require_subcommand(0, 1);  // none: our own message
  app.formatter(std::make_shared<HelpFormat>());
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->group("Commands");
    // Of a flag that is given twice the last one counts, so that an alias can be overruled.
    sub->option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    commands.emplace_back(sub, command.declare(*sub));
  }
}

CLI::App* CommandLine::command(const std::string& name) const {
  for (const auto& [sub, action] : commands)
    if (sub->get_name() == name) return sub;
  return nullptr;
}

std::vector<std::string> CommandLine::names() const {
  std::vector<std::string> names;
  for (const auto& [sub, action] : commands) names.push_back(sub->get_name());
  return names;
}

}  // namespace smelt
