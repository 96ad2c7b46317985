// The options that say what a text has to be: a grammar, a JSON schema, a regular expression.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "grammar/grammar.h"

namespace CLI {
class App;
}

namespace smelt {

struct GrammarFlags {
  std::optional<std::string> gbnf, gbnf_file, schema, schema_file, regex;
  bool json = false;
};

void declare_grammar_flags(CLI::App& app, GrammarFlags& flags);

// Nothing if none is asked for; an Error if two are, or one cannot be read.
Result<std::optional<Grammar>> read_grammar(const GrammarFlags& flags);

}  // namespace smelt
