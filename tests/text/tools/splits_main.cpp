// split_texts: for each line of standard input, a text as JSON, one line with the lengths in bytes of the words that
// every pre-tokenizer cuts it into..
//
//   "I'll go"  ->  {"gpt-2":[1,3,3],"llama-bpe":[1,3,3], ...}
//
// What check_splits.py reads.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/pretokenize.h"

namespace {

std::vector<size_t> lengths(const smelt::Pretokenizer& pretokenizer, const std::string& text) {
  std::vector<size_t> list;
  smelt::split_words(std::span(pretokenizer.stages), text, [&](std::string_view word) { list.push_back(word.size()); });
  return list;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json text = nlohmann::json::parse(line, nullptr, false);
    if (!text.is_string()) return std::fprintf(stderr, "split_texts: a line is not a text\n"), 1;
    nlohmann::json words;
    for (const smelt::Pretokenizer& pretokenizer : smelt::all_pretokenizers())
      words[std::string(pretokenizer.names[0])] = lengths(pretokenizer, text.get<std::string>());
    std::cout << words.dump() << "\n";
  }
  return 0;
}
