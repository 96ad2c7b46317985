#include "app/grammar_flags.h"

#include <CLI/CLI.hpp>

#include "base/file.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/regular.h"

namespace smelt {
namespace {

Result<Grammar> grammar_of_regex(const std::string& expression) {
  SMELT_TRY(language, read_regex(expression, false));
  Grammar grammar;
  grammar.set_root(to_grammar(grammar, language, plain_form));
  return grammar;
}

Result<Grammar> read(const GrammarFlags& flags) {
  if (flags.gbnf) return read_gbnf(*flags.gbnf);
  if (flags.schema) return read_json_schema(*flags.schema);
  if (flags.regex) return grammar_of_regex(*flags.regex);
  if (flags.json) return any_json_object();
  SMELT_TRY(text, read_file(flags.gbnf_file ? *flags.gbnf_file : *flags.schema_file));
  return flags.gbnf_file ? read_gbnf(text) : read_json_schema(text);
}

}  // namespace

void declare_grammar_flags(CLI::App& app, GrammarFlags& flags) {
  CLI::Option* options[] = {
      app.add_option("--grammar", flags.gbnf, "a grammar in GBNF: the text will be one that it has")->type_name("GBNF"),
      app.add_option("--grammar-file", flags.gbnf_file, "a file with such a grammar")->type_name("FILE"),
      app.add_option("-j,--json-schema", flags.schema, "a JSON schema: the text will be a value that it accepts")
          ->type_name("SCHEMA"),
      app.add_option("--json-schema-file", flags.schema_file, "a file with such a schema")->type_name("FILE"),
      app.add_option("--regex", flags.regex, "a regular expression that the whole text will match")->type_name("REGEX"),
      app.add_flag("--json", flags.json, "the text will be a JSON object")};
  for (CLI::Option* one : options)
    for (CLI::Option* other : options)
      if (one != other) one->excludes(other);
}

Result<std::optional<Grammar>> read_grammar(const GrammarFlags& flags) {
  const bool asked = flags.gbnf || flags.gbnf_file || flags.schema || flags.schema_file || flags.regex || flags.json;
  if (!asked) return std::optional<Grammar>();
  SMELT_TRY(grammar, read(flags));
  return std::optional(std::move(grammar));
}

}  // namespace smelt
