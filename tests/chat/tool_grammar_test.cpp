// Calls of tools that a grammar lets through are those that the parser of the family reads.
#include "chat/tool_grammar.h"

#include <doctest/doctest.h>

#include <set>

#include "support/effort.h"
#include "support/random_calls.h"

using namespace smelt;
using namespace smelt::test;
using nlohmann::ordered_json;

namespace {

const ordered_json& tools() {
  static const ordered_json all = ordered_json::parse(R"([
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9},
      "unit": {"type": "string", "enum": ["C", "F"]}, "exact": {"type": "boolean"}}, "required": ["city", "days"]}}},
    {"type": "function", "function": {"name": "now"}},
    {"name": "save", "parameters": {"type": "object", "$defs": {"p": {"type": "object", "properties": {
      "x": {"type": "number"}, "note": {"type": ["string", "null"]}}, "required": ["x", "note"]}},
      "properties": {"points": {"type": "array", "items": {"$ref": "#/$defs/p"}, "minItems": 1, "maxItems": 2}},
      "required": ["points"]}}])");
  return all;
}

const CallFamily& family(std::string_view name) {
  for (const CallFamily& one : call_families())
    if (one.name == name) return one;
  FAIL("no such family");
  std::abort();
}

// Arguments as the tools above want them.
bool fits(const ToolCall& call) {
  const ordered_json a = ordered_json::parse(call.arguments);
  if (call.name == "now") return a.empty();
  if (call.name == "weather") {
    for (const auto& [name, value] : a.items()) {
      if (name == "unit" && value != "C" && value != "F") return false;
      if (name == "exact" && !value.is_boolean()) return false;
    }
    return a.contains("city") && a["city"].is_string() && a.contains("days") && a["days"].is_number_integer() &&
           a["days"] >= 1 && a["days"] <= 9;
  }
  if (call.name != "save" || a.size() != 1 || a["points"].empty() || a["points"].size() > 2) return false;
  for (const ordered_json& p : a["points"])
    if (!p["x"].is_number() || !(p["note"].is_null() || p["note"].is_string())) return false;
  return true;
}

// Whether the grammar has this whole text; marks that are control tokens are written as such.
bool has_text(const CallFamily& of, const ToolRules& rules, std::string text) {
  const auto tokens = vocabulary_of(of);
  const auto grammar = tool_grammar(of.format, tools(), rules, *tokens);
  REQUIRE_MESSAGE(grammar.ok(), (grammar ? "" : grammar.error().message));
  const auto masks = TokenMasks::make(*grammar, tokens);
  REQUIRE_MESSAGE(masks.ok(), (masks ? "" : masks.error().message));
  for (const std::string& mark : of.control)
    for (size_t at = 0; (at = text.find(mark, at)) != text.npos; at += mark.size() + 1)
      text.replace(at, mark.size(), TokenTable::control(mark));
  Constraint constraint(*masks);
  return constraint.accept(std::string_view(text)) && constraint.can_end();
}

// The schema of a value, as deep as it happens.
ordered_json random_schema(std::mt19937& random, int depth = 0) {
  switch (random() % (depth < 2 ? 8 : 6)) {
    case 0:
    case 1: return {{"type", "string"}};
    case 2: return {{"type", "integer"}, {"minimum", -99}, {"maximum", 99}};
    case 3: return {{"type", "boolean"}};
    case 4: return {{"type", {"string", "null"}}};
    case 5: return {{"type", "string"}, {"enum", {"a b", "<c>", "d\"e"}}};
    case 6: return {{"type", "array"}, {"items", random_schema(random, depth + 1)}, {"maxItems", 2}};
    default: break;
  }
  ordered_json object = {{"type", "object"}, {"properties", ordered_json::object()}, {"additionalProperties", false}};
  for (size_t i = 0, count = random() % 4; i < count; ++i) {
    const std::string name = "p" + std::to_string(i);
    object["properties"][name] = random_schema(random, depth + 1);
    if (random() % 2) object["required"].push_back(name);
  }
  return object;
}

// What a client adds up of the parts of an answer.
std::vector<ToolCall> added_up(const CallFamily& of, const std::string& text, const ordered_json& list) {
  const auto parser = OutputParser::make(of.format, {false, list});
  std::vector<ToolCall> calls;
  const auto take = [&](const Output& news) {
    for (const ToolCall& part : news.calls) {
      const bool is_more = news.continues_call && &part == &news.calls.front();
      if (!is_more) calls.push_back({.name = part.name, .id = part.id});
      calls.back().arguments += part.arguments;
      calls.back().is_whole = part.is_whole;
    }
  };
  for (char byte : text) take(parser->push({&byte, 1}));
  take(parser->finish());
  return calls;
}

}  // namespace

TEST_CASE("arguments that come in pieces add up to those of the whole answer, for tools of any schema") {
  std::mt19937 random(17);
  int calls = 0;
  for (int round = 0; round < repetitions(12); ++round) {
    ordered_json parameters = {{"type", "object"}, {"properties", ordered_json::object()}};
    for (size_t i = 0; i < 1 + random() % 4; ++i) {
      const std::string name = "argument" + std::to_string(i);
      parameters["properties"][name] = random_schema(random);
      parameters["required"].push_back(name);
    }
    const ordered_json list = ordered_json::array({{{"name", "f"}, {"parameters", parameters}}});
    for (const CallFamily& one : call_families()) {
      const auto answer = random_calls(one, list, random);
      REQUIRE_MESSAGE(answer.ok(), (answer ? "" : answer.error().message));
      if (answer->text.empty()) continue;
      CAPTURE(one.name);
      CAPTURE(answer->text);
      CHECK(added_up(one, answer->text, list) == answer->output.calls);
      for (const ToolCall& call : answer->output.calls) {
        CAPTURE(call.arguments);
        CHECK(call.is_whole);
        const auto arguments = ordered_json::parse(call.arguments, nullptr, false);
        REQUIRE(arguments.is_object());
        for (const auto& name : parameters["required"]) CHECK(arguments.contains(name));
        ++calls;
      }
    }
  }
  CHECK(calls > repetitions(100));
}

TEST_CASE("calls that are drawn from a grammar are read, in every family's format") {
  std::mt19937 random(3);
  for (const CallFamily& one : call_families()) {
    CAPTURE(one.name);
    std::set<std::string> called;
    int ended = 0;
    const int rounds = kSanitized ? 20 : 40;  // until each tool was called
    for (int round = 0; round < rounds; ++round) {
      const auto answer = random_calls(one, tools(), random);
      REQUIRE_MESSAGE(answer.ok(), (answer ? "" : answer.error().message));
      if (answer->text.empty()) continue;
      ++ended;
      CAPTURE(answer->text);
      CHECK(answer->output.content == "");
      CHECK(!answer->output.calls.empty());
      for (const ToolCall& call : answer->output.calls) {
        CAPTURE(call.arguments);
        CHECK(fits(call));
        called.insert(call.name);
      }
    }
    CHECK(ended >= rounds / 2);
    CHECK(called.size() == 3);
  }
}

TEST_CASE("where the model may choose, it writes anything, and calls cannot be malformed") {
  std::mt19937 random(4);
  for (const CallFamily& one : call_families()) {
    CAPTURE(one.name);
    size_t calls = 0;
    for (int round = 0; round < (kSanitized ? 30 : 60); ++round) {
      const auto answer = random_calls(one, tools(), random, {});
      REQUIRE_MESSAGE(answer.ok(), (answer ? "" : answer.error().message));
      CAPTURE(answer->text);
      for (const ToolCall& call : answer->output.calls) CHECK(fits(call));
      calls += answer->output.calls.size();
      for (const char* mark : {"<tool_call>", "<function=", "[TOOL_CALLS]", "<|tool_call>"})
        CHECK(answer->output.content.find(mark) == std::string::npos);
    }
    CHECK(calls > 0);
  }
}

TEST_CASE("beside a schema for the content, an answer is calls or such a content") {
  const ordered_json schema = ordered_json::parse(
      R"({"type": "object", "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}},
          "required": ["name", "parameters"]})");
  std::mt19937 random(6);
  for (const CallFamily& one : call_families()) {
    CAPTURE(one.name);
    int with_calls = 0, with_content = 0;
    for (int round = 0; round < repetitions(60); ++round) {
      const auto answer = random_calls(one, tools(), random, {.content = schema});
      REQUIRE_MESSAGE(answer.ok(), (answer ? "" : answer.error().message));
      if (answer->text.empty()) continue;
      CAPTURE(answer->text);
      for (const ToolCall& call : answer->output.calls) CHECK(fits(call));
      if (!answer->output.calls.empty()) {
        CHECK(answer->output.content.empty());
        ++with_calls;
        continue;
      }
      const auto content = ordered_json::parse(answer->output.content, nullptr, false);
      REQUIRE(content.is_object());
      CHECK(content["name"].is_string());
      CHECK(content["parameters"].is_object());
      ++with_content;
    }
    CHECK(with_calls > 0);
    CHECK(with_content > 0);
  }
}

TEST_CASE("what the families' models write is in their grammars") {
  const CallFamily &glm = family("GLM"), &hermes = family("Hermes"), &coder = family("Qwen3-Coder");
  CHECK(has_text(glm, {},
                 "Let me see: 1 < 2.<tool_call>weather<arg_key>city</arg_key><arg_value>a\n<b></arg_value>"
                 "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call><tool_call>now</tool_call>"));
  CHECK(has_text(glm, {}, "no call at all <tool"));
  CHECK_FALSE(has_text(glm, {}, "<tool_call>nothing</tool_call>"));
  CHECK_FALSE(has_text(glm, {}, "<tool_call>weather<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>"));
  CHECK_FALSE(has_text(glm, {.parallel = false}, "<tool_call>now</tool_call><tool_call>now</tool_call>"));
  CHECK(has_text(glm, {.must_call = true}, "<think>why</think>\n<tool_call>now</tool_call>"));
  CHECK(has_text(glm, {.must_call = true, .starts_in_thoughts = true}, "why</think><tool_call>now</tool_call>"));
  CHECK_FALSE(has_text(glm, {.must_call = true}, "now!"));
  CHECK_FALSE(has_text(glm, {.must_call = true, .only = "save"}, "<tool_call>now</tool_call>"));
  CHECK(has_text(hermes, {},
                 "Ok.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"</tool_call>\", "
                 "\"days\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
  CHECK(has_text(coder, {},
                 "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n7\n"
                 "</parameter>\n</function>\n</tool_call>"));
  CHECK(has_text(family("Llama 3"), {}, "{\"name\": \"now\", \"parameters\": {}}"));
  CHECK(has_text(family("Llama 3"), {}, "Well {\"a\": 1}"));
  CHECK_FALSE(has_text(family("Llama 3"), {}, "\n{\"a\": 1}"));
  CHECK(has_text(family("Mistral"), {}, "Ok[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now[ARGS]{}"));
  CHECK(has_text(family("Mistral, older"), {}, "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}}]"));
  CHECK(has_text(family("DeepSeek"), {},
                 "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
                 "<｜tool▁calls▁end｜>"));
  CHECK(has_text(family("DeepSeek, older"), {},
                 "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n"
                 "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"));
  CHECK(has_text(family("gpt-oss"), {},
                 "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
                 "to=functions.now <|constrain|>json<|message|>{}"));
  CHECK(has_text(family("gpt-oss"), {}, " to=functions.now<|channel|>commentary json<|message|>{}"));
  CHECK(has_text(family("gpt-oss"), {}, "<|channel|>final<|message|>Hello."));
  CHECK_FALSE(has_text(family("gpt-oss"), {.must_call = true}, "<|channel|>final<|message|>Hello."));
  CHECK(has_text(family("Kimi"), {},
                 "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}"
                 "<|tool_call_end|><|tool_calls_section_end|>"));
  CHECK_FALSE(has_text(family("Kimi"), {}, "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>7"));
  CHECK(has_text(family("Seed"), {},
                 "<seed:think>x</seed:think><seed:tool_call>\n<function=weather>\n<parameter=city>Rome</parameter>\n"
                 "<parameter=days>7</parameter>\n</function>\n</seed:tool_call>"));
  CHECK(has_text(family("Command"), {},
                 "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": "
                 "{}}\n]<|END_ACTION|>"));
  const CallFamily with_control = {"DeepSeek V3.2", {CallStyle::dsml}, {"｜DSML｜"}, {}};
  for (const CallFamily& version : {with_control, family("DeepSeek V3.2")}) {
    CHECK(has_text(version, {},
                   "Ok.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter "
                   "name=\"city\" string=\"true\">Rome</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
                   "string=\"false\">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"));
    CHECK_FALSE(has_text(version, {}, "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"no\">"));
  }
  CHECK(has_text(family("Gemma"), {}, "<|tool_call>call:weather{city:<|\"|>R{o}m<|\"|>,days:2}<tool_call|>"));
}

TEST_CASE("tools that cannot be called are refused by a sentence") {
  const auto tokens = vocabulary_of(family("GLM"));
  const auto message = [&](const char* list, const ToolRules& rules = {}, CallStyle style = CallStyle::glm) {
    const auto grammar = tool_grammar({.calls = style}, ordered_json::parse(list), rules, *tokens);
    return grammar ? std::string("fine") : grammar.error().message;
  };
  CHECK(message("[]") == "[tools] there is no tool that could be called");
  CHECK(message("[7]").starts_with("[tools] each tool is {"));
  CHECK(message(R"([{"name": "f"}])", {.only = "g"}) == "[tools] 'g' is none of the tools");
  CHECK(message(R"([{"name": "f g"}])") ==
        "[tools] the name 'f g' cannot be called: names have no spaces, quotes and brackets");
  CHECK(message(R"([{"name": "f"}])", {}, CallStyle::none) ==
        "[tools] the template of this model has no format for calls of tools that is known here");
  CHECK(message(R"([{"name": "f", "parameters": {"type": "array"}}])") ==
        "[tools] the parameters of 'f' cannot be held to: they are the schema of an object");
  const char* strict = R"([{"name": "f", "strict": true, "parameters": {"properties": {"a": {"not": {}}}}}])";
  CHECK(message(strict) == "[tools] the parameters of 'f' cannot be held to: /: the keyword 'not' is not supported");
  CHECK(message(R"([{"name": "f", "parameters": {"properties": {"a": {"not": {}}}}}])") == "fine");
}

TEST_CASE("a schema that cannot be held to leaves any arguments") {
  const ordered_json open = ordered_json::parse(R"([{"name": "f", "parameters": {"not": {}}}])");
  std::mt19937 random(5);
  for (const CallFamily& one : call_families()) {
    CAPTURE(one.name);
    for (int round = 0; round < 5; ++round) {
      const auto answer = random_calls(one, open, random);
      REQUIRE_MESSAGE(answer.ok(), (answer ? "" : answer.error().message));
      CAPTURE(answer->text);
      if (!answer->text.empty()) CHECK(!answer->output.calls.empty());
    }
  }
}
