// The commands that look at a file without running the model: inspect, tokenize and detokenize.
#include <CLI/CLI.hpp>

#include "app/checks.h"
#include "app/command.h"
#include "app/engine_flags.h"
#include "app/inspect.h"
#include "app/machine_flag.h"
#include "app/tokenize.h"

namespace smelt {
namespace {

Result<int> done(const Status& status) {
  if (!status) return status.error();
  return 0;
}

}  // namespace

Action declare_inspect(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  declare_model_flag(app, options->model);
  app.add_option("model", options->model, "the same without -m")->type_name("MODEL")->check(not_empty());
  app.add_option("-c,--ctx-size", options->context, "tokens of context, for the size of the attention cache")
      ->type_name("N")
      ->check(whole_number(1, int64_t{1} << 30));
  app.add_flag("--json", options->json, "print JSON");
  declare_machine_flag(app, options->machine, "say what the memory of this machine allows");
  app.footer(
      "Examples:\n  smelt inspect model.gguf\n  smelt inspect model.gguf --json | jq .tensors\n"
      "\nNothing is loaded: a file of any size is looked at in a moment.\n");
  return [options]() -> Result<int> { return done(inspect(*options)); };
}

Action declare_tokenize(CLI::App& app) {
  const auto options = std::make_shared<TokenizeOptions>();
  declare_model_flag(app, options->model);
  app.add_option("text", options->text, "the text; without it, all of standard input")->type_name("TEXT");
  app.add_option("-f,--file", options->file, "a file with the text")->type_name("FILE");
  app.add_flag("--ids", options->ids, "print ids alone, one a line");
  app.add_flag("--json", options->json, "print one line of JSON, ids alone");
  app.add_flag("!--no-bos", options->add_special, "add no begin or end token, whatever the file says");
  app.add_flag("!--no-parse-special", options->parse_special, "take <|user|> and the like as plain text");
  app.footer(
      "Examples:\n  smelt tokenize \"Once upon a time\"\n  smelt tokenize -m model.gguf --json < "
      "story.txt\n");
  return [options]() -> Result<int> { return done(tokenize(*options)); };
}

Action declare_detokenize(CLI::App& app) {
  const auto options = std::make_shared<DetokenizeOptions>();
  declare_model_flag(app, options->model);
  app.add_option("ids", options->ids, "token ids; without them, those on standard input")->type_name("IDS");
  app.footer(
      "Examples:\n  smelt detokenize 416,432,258\n  smelt tokenize --json \"Once upon\" | smelt detokenize\n"
      "\nNothing is added to the bytes of the tokens, no newline either.\n");
  return [options]() -> Result<int> { return done(detokenize(*options)); };
}

}  // namespace smelt
