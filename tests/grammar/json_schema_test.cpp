#include "grammar/json_schema.h"

#include <doctest/doctest.h>

#include "grammar/sampling.h"

using namespace smelt;
using smelt::test::accepts;

namespace {

bool has(std::string_view schema, std::string_view text) {
  const auto grammar = read_json_schema(schema);
  REQUIRE_MESSAGE(grammar.ok(), (grammar ? "" : grammar.error().message));
  return accepts(*grammar, text);
}

std::string problem(std::string_view schema) {
  const auto grammar = read_json_schema(schema);
  return grammar ? "" : grammar.error().message;
}

}  // namespace

TEST_CASE("objects have their properties in order, the required ones always") {
  const char* schema = R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},
                          "c":{"type":"null"}},"required":["b"]})";
  CHECK(has(schema, R"({"a":1,"b":true,"c":null})"));
  CHECK(has(schema, R"({ "b": false })"));
  CHECK(has(schema, "{\n  \"a\": 12,\n  \"b\": true\n}"));
  CHECK_FALSE(has(schema, R"({"a":1})"));
  CHECK_FALSE(has(schema, R"({"b":true,"a":1})"));
  CHECK_FALSE(has(schema, R"({"b":true,})"));
  CHECK_FALSE(has(schema, R"({"b":true,"d":1})"));
  CHECK_FALSE(has(schema, R"({,"b":true})"));
}

TEST_CASE("additional properties have any name but those of properties") {
  const char* schema = R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})";
  CHECK(has(schema, R"({"a":1,"b":"x"})"));
  CHECK(has(schema, R"({"aa":"x","":"y"})"));
  CHECK(has(schema, "{}"));
  CHECK_FALSE(has(schema, R"({"a":"x"})"));
  CHECK_FALSE(has(schema, R"({"b":1})"));
  CHECK(has(R"({"type":"object"})", R"({"any":[1,{"x":null}]})"));
}

TEST_CASE("counts of items and properties are kept") {
  const char* list = R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})";
  CHECK(has(list, "[1, 2]"));
  CHECK(has(list, "[1,2,3]"));
  CHECK_FALSE(has(list, "[1]"));
  CHECK_FALSE(has(list, "[1,2,3,4]"));
  const char* pair =
      R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false,"minItems":2})";
  CHECK(has(pair, R"(["a", 1])"));
  CHECK_FALSE(has(pair, R"(["a"])"));
  CHECK_FALSE(has(pair, R"(["a",1,2])"));
  const char* few = R"({"properties":{"a":true,"b":true,"c":true},"maxProperties":2,"minProperties":1})";
  CHECK(has(few, R"({"a":1,"c":2})"));
  CHECK_FALSE(has(few, R"({"a":1,"b":1,"c":2})"));
  CHECK_FALSE(has(few, "{}"));
  CHECK(has(R"({"type":"array","items":{"type":"integer"}})", "[]"));
  CHECK(has(R"({"type":"array","items":{"type":"integer"},"maxItems":0})", "[]"));
  CHECK_FALSE(has(R"({"type":"array","items":{"type":"integer"},"maxItems":0})", "[1]"));
}

TEST_CASE("strings keep their length, pattern and format") {
  CHECK(has(R"({"type":"string","minLength":2,"maxLength":3})", R"("äb")"));
  CHECK(has(R"({"type":"string","minLength":2,"maxLength":3})", R"("\n\u00e4")"));
  CHECK_FALSE(has(R"({"type":"string","minLength":2,"maxLength":3})", R"("a")"));
  CHECK_FALSE(has(R"({"type":"string","maxLength":3})", R"("abcd")"));
  CHECK(has(R"({"type":"string","pattern":"^[A-Z]\\d+$"})", R"("B52")"));
  CHECK_FALSE(has(R"({"type":"string","pattern":"^[A-Z]\\d+$"})", R"("b52")"));
  CHECK(has(R"({"type":"string","pattern":"\"x"})", R"("a\"xb")"));
  CHECK(has(R"({"type":"string","pattern":"^a+$","maxLength":2})", R"("aa")"));
  CHECK_FALSE(has(R"({"type":"string","pattern":"^a+$","maxLength":2})", R"("aaa")"));
  CHECK(has(R"({"type":"string","format":"date-time"})", R"("2024-02-28T23:59:59Z")"));
  CHECK_FALSE(has(R"({"type":"string","format":"date"})", R"("2024-02-30")"));
  CHECK(has(R"({"type":"string","format":"uuid"})", R"("123e4567-e89b-12d3-a456-426614174000")"));
  CHECK(has(R"({"type":"string","format":"ipv4"})", R"("192.168.0.255")"));
  CHECK_FALSE(has(R"({"type":"string","format":"ipv4"})", R"("192.168.0.256")"));
}

TEST_CASE("const, enum, several types and combinations of schemas") {
  CHECK(has(R"({"enum":["a\"b",1,null,{"x":[1]}]})", R"("a\"b")"));
  CHECK(has(R"({"enum":["a",1,null,{"x":[1]}]})", R"({"x":[1]})"));
  CHECK_FALSE(has(R"({"type":"string","enum":["a",1]})", "1"));
  CHECK(has(R"({"const":3.5})", "3.5"));
  CHECK(has(R"({"type":["integer","null"]})", "null"));
  CHECK(has(R"({"anyOf":[{"type":"integer","minimum":5},{"type":"string"}],"description":"x"})", "7"));
  CHECK_FALSE(has(R"({"anyOf":[{"type":"integer","minimum":5},{"type":"string"}]})", "4"));
  const char* both = R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},
                                  {"properties":{"b":{"type":"integer"}},"required":["b"]}]})";
  CHECK(has(both, R"({"a":1,"b":2})"));
  CHECK_FALSE(has(both, R"({"a":1})"));
  CHECK_FALSE(has(R"({"allOf":[{"type":"integer","minimum":3},{"type":"number","maximum":5}]})", "6"));
}

TEST_CASE("references may go round in circles") {
  const char* tree = R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{
      "value":{"type":"integer"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["value"]}}})";
  CHECK(has(tree, R"({"value":1,"children":[{"value":2,"children":[]},{"value":3}]})"));
  CHECK_FALSE(has(tree, R"({"value":1,"children":[{}]})"));
}

TEST_CASE("what cannot be kept is refused with its place") {
  CHECK(problem(R"({"properties":{"a":{"not":{"type":"null"}}}})") ==
        "[schema] /properties/a: the keyword 'not' is not supported");
  CHECK(problem(R"({"type":"strin"})") == "[schema] /: type \"strin\" is none of JSON's");
  CHECK(problem(R"({"$ref":"#/nowhere"})") == "[schema] /$ref: '#/nowhere' is not in the schema");
  CHECK(problem(R"({"$ref":"http://x/y"})").find("only references within") != std::string::npos);
  CHECK(problem("[") == "[schema] the schema is not JSON");
  CHECK(problem(R"({"minItems":-1})").find("'minItems' is -1") != std::string::npos);
  CHECK(problem(R"({"type":"array","uniqueItems":true})").find("uniqueItems") != std::string::npos);
  CHECK(problem(std::string(100'000, '[')).find("levels") != std::string::npos);
  CHECK(problem(R"x({"type":"string","pattern":"(?=a)"})x").find("look-around") != std::string::npos);
  std::string deep = R"({"type":"null"})";
  for (int i = 0; i < 300; ++i) deep = R"({"anyOf":[)" + deep + "]}";
  CHECK(problem(deep).find("levels") != std::string::npos);
  CHECK(problem(R"({"$ref":"#"})").empty());  // refused once it is to be followed
  CHECK_FALSE(Automaton::from(*read_json_schema(R"({"$ref":"#"})")).ok());
}

TEST_CASE("JSON mode has every object and nothing else") {
  const Grammar grammar = any_json_object();
  CHECK(accepts(grammar, R"({"a": [1, -2.5e3, "x\u00e4\n", {}], "b": {"c": [[]]}, "d": true})"));
  CHECK_FALSE(accepts(grammar, "[1]"));
  CHECK_FALSE(accepts(grammar, R"({"a": 01})"));
  CHECK_FALSE(accepts(grammar, "{\"a\": \"\n\"}"));
}
