// Reads JSON schemas, one a line, and writes for each a line of JSON: {"texts": [...]}, random texts of its grammar, or
// {"error": "..."}. With an argument, the schema is that of a tool, and the texts are the arguments of calls that were
// drawn in the formats of all families and read again. check_schemas.py asks it and lets an independent validator
// judge.
#include <cstdio>
#include <iostream>
#include <random>
#include <string>

#define DOCTEST_CONFIG_IMPLEMENT
#include "grammar/json_schema.h"
#include "grammar/sampling.h"
#include "support/random_calls.h"

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

nlohmann::json called(const std::string& schema, std::mt19937& random) {
  nlohmann::ordered_json tools = nlohmann::ordered_json::array();
  tools.push_back({{"name", "f"}, {"strict", true}, {"parameters", nlohmann::ordered_json::parse(schema)}});
  nlohmann::json texts = nlohmann::json::array();
  for (const test::CallFamily& family : test::call_families()) {
    const auto answer = test::random_calls(family, tools, random);
    if (!answer) return {{"error", family.name + ": " + answer.error().message}};
    if (answer->text.empty()) continue;  // none within the length
    if (!answer->output.content.empty() || answer->output.calls.empty())
      texts.push_back(family.name + ": cannot be read: " + answer->text);
    for (const ToolCall& call : answer->output.calls) texts.push_back(call.arguments);
  }
  return {{"texts", texts}};
}

}  // namespace

int main(int argc, char**) {
  const auto tokens = test::small_vocabulary();
  std::mt19937 random(1);
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json answer = argc > 1 ? called(line, random) : samples(line, tokens, random);
    std::cout << answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  }
}
