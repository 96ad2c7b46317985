// The commands that look at a file without running the model: inspect and tokenize.
#include <CLI/CLI.hpp>

#include "app/checks.h"
#include "app/command.h"
#include "app/engine_flags.h"
#include "app/inspect.h"
#include "app/tokenize.h"

namespace smelt {

Action declare_inspect(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  app.add_option("file", options->path, "GGUF file, or the first shard of one")
      ->type_name("FILE")
      ->required();
  app.add_option("-c,--ctx-size", options->context,
                 "tokens of context, for the size of the attention cache")
      ->type_name("N")
      ->check(whole_number(1, int64_t{1} << 30));
  app.add_flag("--json", options->json, "print JSON");
  app.footer(
      "Examples:\n  smelt inspect model.gguf\n  smelt inspect model.gguf --json | jq .tensors\n"
      "\nNothing is loaded: a file of any size is looked at in a moment.\n");
  return [options]() -> Result<int> { return run_inspect(*options); };
}

Action declare_tokenize(CLI::App& app) {
  const auto options = std::make_shared<TokenizeOptions>();
  declare_model_flag(app, options->model);
  const CLI::Option* text =
      app.add_option("text", options->text, "the text; without it, all of standard input")
          ->type_name("TEXT");
  app.add_flag("--json", options->json, "print one line of JSON, not one id a line");
  app.add_flag("!--no-bos", options->add_special,
               "add no begin or end token, whatever the file says");
  app.add_flag("!--no-parse-special", options->parse_special,
               "take <|user|> and the like as plain text");
  app.footer(
      "Examples:\n  smelt tokenize \"Once upon a time\"\n  smelt tokenize -m model.gguf --json < "
      "story.txt\n");
  return [options, text]() -> Result<int> {
    options->from_stdin = text->count() == 0;
    return run_tokenize(*options);
  };
}

}  // namespace smelt
