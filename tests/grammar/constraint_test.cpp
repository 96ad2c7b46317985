#include "grammar/constraint.h"

#include <doctest/doctest.h>

#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/sampling.h"

using namespace smelt;
using namespace smelt::test;

namespace {

// A mask by its definition: a token may come if its bytes can be read from here.
TokenMask by_trying(const TokenMasks& masks, const std::string& text) {
  TokenMask mask(masks.tokens().vocabulary_size());
  Matcher matcher(masks.automaton());
  Matcher::State here = matcher.start();
  for (char c : text) here = matcher.step(here, static_cast<uint8_t>(c));
  for (int32_t t = 1; t < masks.tokens().vocabulary_size(); ++t) {
    Matcher::State s = here;
    for (char c : masks.tokens().piece(t)) s = matcher.step(s, static_cast<uint8_t>(c));
    if (s != Matcher::kDead) mask.set(t);
  }
  return mask;
}

}  // namespace

TEST_CASE("masks hold exactly the tokens that the grammar can read") {
  const char* grammars[] = {
      "root ::= \"(\" root \")\" | [a-c]+",
      "root ::= item (\",\" item)*\nitem ::= \"a\" | \"ab\" | \"[\" root? \"]\"",
      "root ::= \"{\" [^}]* \"}\" \"\\n\"?",
      "root ::= s\ns ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" .)* \"\\\"\" (\",\" s)?",
  };
  const auto tokens = small_vocabulary();
  std::mt19937 random(11);
  for (int i = 0; i < 5; ++i) {
    const Grammar grammar = i < 4 ? read_gbnf(grammars[i]).take() : any_json_object();
    const auto masks = TokenMasks::make(grammar, tokens);
    REQUIRE(masks.ok());
    for (int round = 0; round < 20; ++round) {
      Constraint constraint(*masks);
      std::string text;
      for (int step = 0; step < 30; ++step) {
        const TokenMask mask = constraint.mask(), expected = by_trying(**masks, text);
        CAPTURE(text);
        REQUIRE(std::equal(mask.words().begin(), mask.words().end(), expected.words().begin()));
        std::vector<int32_t> allowed;
        for (int32_t t = 0; t < tokens->vocabulary_size(); ++t)
          if (mask.has(t)) allowed.push_back(t);
        if (allowed.empty()) break;
        const int32_t next = allowed[random() % allowed.size()];
        REQUIRE(constraint.accept(next).ok());
        text += tokens->piece(next);
      }
    }
  }
}

TEST_CASE("a token that the grammar does not have is refused and changes nothing") {
  const auto masks = TokenMasks::make(*read_gbnf("root ::= \"ab\""), small_vocabulary());
  Constraint constraint(*masks);
  CHECK(constraint.accept("a").ok());
  CHECK_FALSE(constraint.accept("x").ok());
  CHECK_FALSE(constraint.can_end());
  CHECK(constraint.accept("b").ok());
  CHECK(constraint.can_end());
  CHECK(constraint.mask().empty());
}

TEST_CASE("a grammar that can be read in too many ways ends in a sentence") {
  std::string text = "root ::= (a | a a)* \"!\"\na ::= ";
  for (int i = 0; i < 300; ++i) text += "\"x\" [a-z]{0,40} | ";
  const auto grammar = read_gbnf(text + "\"y\"");
  REQUIRE(grammar.ok());
  const auto masks = TokenMasks::make(*grammar, small_vocabulary());
  REQUIRE(masks.ok());
  Constraint constraint(*masks);
  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = constraint.accept("x");
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message.find("too many ways") != std::string::npos);
}
