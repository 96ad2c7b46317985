// `smelt tokenize -m FILE TEXT`: the token ids of a text.
#pragma once

#include <string>

namespace smelt {

struct TokenizeOptions {
  std::string model;  // path of a GGUF file; empty: the embedded model
  std::string text;
  bool from_stdin = false;    // the text is all of the standard input
  bool json = false;          // one line "[1, 2, 3]" instead of an id per line
  bool parse_special = true;  // "<|user|>" in the text is the token of that name
  bool add_special = true;    // begin with BOS (and end with EOS) where the file asks for it
};

// Prints to stdout; errors go to stderr as `smelt: MESSAGE`. Returns the exit code.
int run_tokenize(const TokenizeOptions& options);

}  // namespace smelt
