// Reads JSON schemas, one a line, and writes for each a line of JSON: {"texts": [...]}, random texts of its grammar, or
// {"error": "..."}. check_schemas.py asks it and lets an independent validator judge.
#include <cstdio>
#include <iostream>
#include <random>
#include <string>

#define DOCTEST_CONFIG_IMPLEMENT
#include "grammar/json_schema.h"
#include "grammar/sampling.h"

using namespace smelt;

namespace {

constexpr int kTexts = 6;  // for each schema

nlohmann::json samples(const std::string& schema, const std::shared_ptr<const TokenTable>& tokens,
                       std::mt19937& random) {
  const auto grammar = read_json_schema(schema);
  if (!grammar) return {{"error", grammar.error().message}};
  const auto masks = TokenMasks::make(*grammar, tokens);
  if (!masks) return {{"error", masks.error().message}};
  nlohmann::json texts = nlohmann::json::array();
  for (int i = 0; i < kTexts; ++i) {
    Constraint constraint(*masks);
    if (const auto text = test::random_text(constraint, *tokens, random, 60)) texts.push_back(*text);
  }
  return {{"texts", texts}};
}

}  // namespace

int main() {
  const auto tokens = test::small_vocabulary();
  std::mt19937 random(1);
  for (std::string line; std::getline(std::cin, line);) std::cout << samples(line, tokens, random).dump() << "\n";
}
