// From the source of a template to tokens, with the settings of Hugging Face: trim_blocks (the newline after a block
// tag goes) and lstrip_blocks (so do spaces before one that begins its line).
//
//   "  {% if a %}\nx{{ b -}}  "  ->  block_begin, if, a, block_end, data "x", variable_begin, b, variable_end
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smelt::jinja {

struct Token {
  enum class Kind {
    data,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    number,
    symbol,
    end
  };
  Kind kind;
  std::string text;  // of a string: what it stands for; of a number: its digits without "_"
  int line;
};

// Throws TemplateError. The last token is `end`.
std::vector<Token> tokenize(std::string_view source);

}  // namespace smelt::jinja
