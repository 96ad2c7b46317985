// encode_texts MODEL, a GGUF file or a folder: for each line of standard input, a text as JSON, one line with its ids
// and with their text.
//
//   "Hello"  ->  {"ids":[15043],"text":"Hello"}
//
// What check_sentencepiece.py and comparisons by hand read. A text that is not UTF-8 comes back with U+FFFD.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "safetensors/folder.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: encode_texts MODEL < TEXTS\n"), 2;
  auto file = smelt::open_model_files(argv[1]);
  if (!file) return std::fprintf(stderr, "%s\n", file.error().message.c_str()), 1;
  auto tokenizer = smelt::Tokenizer::from_gguf(*file);
  if (!tokenizer) return std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str()), 1;
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json text = nlohmann::json::parse(line, nullptr, false);
    if (!text.is_string()) return std::fprintf(stderr, "encode_texts: a line is not a text\n"), 1;
    const std::vector<int32_t> ids = tokenizer->encode(text.get<std::string>(), false, false);
    const nlohmann::json answer = {{"ids", ids}, {"text", smelt::to_valid_utf8(tokenizer->decode(ids))}};
    std::cout << answer.dump() << "\n";
  }
  return 0;
}
