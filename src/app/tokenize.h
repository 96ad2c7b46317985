// `smelt tokenize` and `smelt detokenize`: text to token ids and back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace smelt {

struct TokenizeOptions {
  std::string model;                // as -m takes it
  std::optional<std::string> text;  // nothing: all of standard input
  std::string file;                 // if not empty, the text is in it
  bool ids = false;                 // an id a line, without the pieces
  bool json = false;                // one line "[1, 2, 3]"
  bool parse_special = true;        // "<|user|>" in the text is the token of that name
  bool add_special = true;          // begin with BOS (and end with EOS) where the file asks for it
};
Status tokenize(const TokenizeOptions& options);

struct DetokenizeOptions {
  std::string model;
  std::vector<std::string> ids;  // "1,2,3" or "1" "2" "3"; empty: those on standard input
};
Status detokenize(const DetokenizeOptions& options);

}  // namespace smelt
