#include "grammar/gbnf.h"

#include <doctest/doctest.h>

#include <string>

#include "grammar/sampling.h"

using namespace smelt;
using smelt::test::accepts;

namespace {

Grammar read(std::string_view text) {
  auto grammar = read_gbnf(text);
  REQUIRE_MESSAGE(grammar.ok(), (grammar ? "" : grammar.error().message));
  return grammar.take();
}

std::string problem(std::string_view text) {
  const auto grammar = read_gbnf(text);
  if (!grammar) return grammar.error().message;
  const auto automaton = Automaton::from(*grammar);
  return automaton ? "" : automaton.error().message;
}

}  // namespace

TEST_CASE("literals, alternatives, groups and repetitions of GBNF mean what they say") {
  const Grammar g = read(R"(root ::= "a" ("b" | "c")* d{2,3} "\x21"?  # a comment
d ::= [0-9] | "ä"
)");
  CHECK(accepts(g, "a12"));
  CHECK(accepts(g, "abccb123!"));
  CHECK(accepts(g, "aä1"));
  CHECK_FALSE(accepts(g, "a1"));
  CHECK_FALSE(accepts(g, "a1234"));
  CHECK_FALSE(accepts(g, "ab"));
  CHECK_FALSE(accepts(g, "a12!!"));
}

TEST_CASE("rules of GBNF go on over lines inside of groups and behind |") {
  const Grammar g = read("root ::= (\n  \"x\"\n  \"y\" ) other\nother ::= \"1\" |\n  \"2\"\n");
  CHECK(accepts(g, "xy1"));
  CHECK(accepts(g, "xy2"));
  CHECK(accepts(read("root ::= \"a\"\n  | \"b\""), "b"));
  CHECK(problem("root ::= \"a\"\n  other\nother ::= \"1\"").find("'other' ::= is missing") != std::string::npos);
}

TEST_CASE("classes of GBNF hold characters and not bytes") {
  const Grammar g = read("root ::= [^a-y\\n]+");
  CHECK(accepts(g, "z\xE2\x82\xAC\xF0\x9F\x98\x80"));
  CHECK_FALSE(accepts(g, "zb"));
  CHECK_FALSE(accepts(g, "z\n"));
  CHECK_FALSE(accepts(g, "\xE2\x82"));
  CHECK(accepts(read("root ::= [à-ÿ]"), "é"));
  CHECK(accepts(read("root ::= ."), "\xED\x9F\xBF"));
  CHECK_FALSE(accepts(read("root ::= ."), "\xED\xA0\x80"));  // half of a surrogate pair
}

TEST_CASE("rules of GBNF may contain themselves") {
  const Grammar g = read("root ::= \"(\" root \")\" | \"x\" ");
  CHECK(accepts(g, "((x))"));
  CHECK_FALSE(accepts(g, "((x)"));
  std::string deep(5000, '(');
  CHECK(accepts(g, deep + "x" + std::string(5000, ')')));
}

TEST_CASE("what is wrong with a grammar is said with its place") {
  CHECK(problem("x ::= \"a\"") == "[grammar] there is no rule 'root'; a text is what that rule says");
  CHECK(problem("root ::= a") == "[grammar] rule 'a' is used, but not defined");
  CHECK(problem("root ::= \"a") == "[grammar] character 12: the line ends within a literal or a class");
  CHECK(problem("root ::= root \"a\" | \"b\"").find("rule 'root' begins with itself") != std::string::npos);
  CHECK(problem("root ::= a\na ::= b? a \"x\"\nb ::= \"y\"").find("rule 'a' begins with itself") != std::string::npos);
  CHECK(problem("root ::= \"a\" root") == "[grammar] no text can satisfy this grammar");
  CHECK(problem("root ::= (\"a\"").find("a group without its )") != std::string::npos);
  CHECK(problem("root ::= \"a\"{3,2}").find("at least more than at most") != std::string::npos);
  CHECK(problem("root ::= \"a\"\nroot ::= \"b\"").find("line 2") != std::string::npos);
}

TEST_CASE("hostile grammars are refused by a sentence") {
  std::string groups(200'000, '(');
  CHECK(problem("root ::= " + groups).find("groups inside of each other") != std::string::npos);
  CHECK(problem("root ::= (((\"a\"{1000}){1000}){1000}){1000}").find("more than 100000 positions") !=
        std::string::npos);
  CHECK(problem(std::string(300'000, 'a')).find("at most 262144 are read") != std::string::npos);
  CHECK(problem("root ::= \"a\"" + std::string(100'000, '*')).find("too many repetitions") != std::string::npos);
}
