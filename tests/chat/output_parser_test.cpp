// What the families write, read as a stream: thoughts, content, calls.
#include "chat/output_parser.h"

#include <doctest/doctest.h>

#include <random>

#include "support/effort.h"

using namespace smelt;
using nlohmann::ordered_json;
using smelt::test::repetitions;

namespace {

const OutputFormat kHermes{CallStyle::json_in_tags, "<think>", "</think>"};
const OutputFormat kGlm{CallStyle::glm, "<think>", "</think>"};
const OutputFormat kCoder{CallStyle::qwen_coder, "", ""};
const OutputFormat kLlama{CallStyle::llama3, "", ""};
const OutputFormat kMistral{CallStyle::mistral, "[THINK]", "[/THINK]"};
const OutputFormat kDeepSeek{CallStyle::deepseek, "<think>", "</think>"};
const OutputFormat kHarmony{CallStyle::harmony, "", ""};
const OutputFormat kGemma{CallStyle::gemma, "<|channel>", "<channel|>"};
const OutputFormat kKimi{CallStyle::kimi, "<think>", "</think>"};
const OutputFormat kSeed{CallStyle::seed, "<seed:think>", "</seed:think>"};
const OutputFormat kCommand{CallStyle::command, "<|START_THINKING|>", "<|END_THINKING|>"};
const OutputFormat kDsml{CallStyle::dsml, "<think>", "</think>"};

const ordered_json& tools() {
  static const ordered_json all = ordered_json::parse(R"([{"type": "function", "function": {"name": "f", "parameters":
    {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}}])");
  return all;
}

Output parse(const OutputFormat& format, const std::vector<std::string>& pieces, bool in_thoughts = false) {
  const auto parser = OutputParser::make(format, {in_thoughts, tools()});
  Output all;
  for (const std::string& piece : pieces) all.append(parser->push(piece));
  all.append(parser->finish());
  return all;
}

// "reasoning|content|f {...};g {...}"
std::string shown(const Output& output) {
  std::string text = output.reasoning + "|" + output.content + "|";
  for (const ToolCall& call : output.calls) {
    text += (&call == &output.calls[0] ? "" : ";") + call.name + " " + call.arguments + call.id;
  }
  return text;
}

std::string read(const OutputFormat& format, const std::string& text, bool in_thoughts = false) {
  return shown(parse(format, {text}, in_thoughts));
}

struct Example {
  OutputFormat format;
  std::string text, expected;
};

const std::vector<Example>& examples() {
  static const std::vector<Example> all = {
      {kHermes, "<think>\nwhy\n</think>\n\nBecause.", "why|Because.|"},
      {kHermes, "plain text\n", "|plain text\n|"},
      {kHermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "||f {}"},
      {kHermes,
       "Look.\n<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"</tool_call>\",\"n\":1.5,\"b\":[true,null]}}</"
       "tool_call>",
       R"(|Look.|f {"s":"</tool_call>","n":1.5,"b":[true,null]})"},
      {kHermes,
       "<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":{\"b\":[]}}}</"
       "tool_call>",
       R"(||f {};g {"a":{"b":[]}})"},
      {kHermes, "<tool_call>{\"name\":\"f\",\"arguments\":{}}", "||f {}"},
      {kHermes, "<tool_call>{\"name\":\"f\"}<tool_call>{\"name\":\"g\"}</tool_call>", "||f {};g {}"},
      {kHermes, "<think>so <tool_call>{\"name\":\"f\"}</tool_call></think>Done.", "so|Done.|f {}"},
      {kHermes, "<tool_call>oops</tool_call> and on", "|<tool_call>oops</tool_call> and on|"},
      {kHermes, "a < b <thin air <tool_", "|a < b <thin air <tool_|"},
      {kHermes, "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"n\\\": 3}\"}</tool_call>", R"(||f {"n":3})"},
      {kGlm,
       "<think>hm</think><tool_call>f<arg_key>s</arg_key><arg_value>12</arg_value><arg_key>n</arg_key><arg_value>12</"
       "arg_value></tool_call>",
       R"(hm||f {"s":"12","n":12})"},
      {kGlm,
       "<tool_call>f\n</tool_call><tool_call>g\n<arg_key>l</arg_key>\n<arg_value>[1, {\"x\": "
       "null}]</arg_value>\n</tool_call>",
       R"(||f {};g {"l":[1,{"x":null}]})"},
      {kGlm, "</think>Hi", "|Hi|"},
      {kGlm, "<tool_call>f<arg_key>s</arg_key><arg_value>a\nb</arg_value>", R"(||f {"s":"a\nb"})"},
      {kCoder,
       "Sure.\n<tool_call>\n<function=f>\n<parameter=s>\ntrue\n</parameter>\n<parameter=n>\n7\n</parameter>\n</"
       "function>\n</tool_call>",
       R"(|Sure.|f {"s":"true","n":7})"},
      {kCoder, "<function=f>\n</function>\n</tool_call>", "||f {}"},
      {kCoder,
       "<tool_call><function=f><parameter=s>two\nlines\n<parameter=o>{\"k\": [1]}</parameter></function></tool_call>",
       R"(||f {"s":"two\nlines","o":{"k":[1]}})"},
      {kCoder, "<tool_call><function=f></function><function=g></function></tool_call>", "||f {};g {}"},
      {kLlama, "{\"name\": \"f\", \"parameters\": {\"n\": 1}}", R"(||f {"n":1})"},
      {kLlama, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
       "||f {};g {}"},
      {kLlama, "{\"a\": 1} is JSON", R"(|{"a": 1} is JSON|)"},
      {kLlama, "No {\"name\": \"f\"} here", R"(|No {"name": "f"} here|)"},
      {kMistral, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"s\": \"[TOOL_CALLS]\"}, \"id\": \"abc\"}]",
       R"(||f {"s":"[TOOL_CALLS]"}abc)"},
      {kMistral, "[THINK]eh[/THINK]Ok[TOOL_CALLS]f[ARGS]{\"n\": 2}[TOOL_CALLS]g[CALL_ID]id7[ARGS]{}",
       R"(eh|Ok|f {"n":2};g {}id7)"},
      {kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"n\": "
       "1}\n```<｜tool▁call▁end｜>\n"
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       R"(||f {"n":1};g {})"},
      {kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\": "
       "\"}\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       R"(||f {"s":"}"})"},
      {kHarmony, "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Answer.",
       "Think.|Answer.|"},
      {kHarmony, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"n\":1}<|call|>",
       R"(||f {"n":1})"},
      {kHarmony, " to=functions.f<|channel|>commentary json<|message|>{}<|call|>", "||f {}"},
      {kHarmony, "<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Then.",
       "|First.\nThen.|"},
      {kGemma,
       "<|channel>thought\nhm<channel|><|tool_call>call:f{s:<|\"|>a,b}<|\"|>,n:1,l:[true,null,{k:1.5}]}<tool_call|>",
       R"(thought)"
       "\n"
       R"(hm||f {"s":"a,b}","n":1,"l":[true,null,{"k":1.5}]})"},
      {kGemma, "<|tool_call>call:f{}<tool_call|><|tool_call>call:g{<|\"|>k<|\"|>:<|\"|><|\"|>}<tool_call|>",
       R"(||f {};g {"k":""})"},
      {kKimi,
       "<think>hm</think>Wait.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
       "{\"n\": 1}<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
       "<|tool_calls_section_end|>",
       R"(hm|Wait.|f {"n":1}functions.f:0;g {}functions.g:1)"},
      {kKimi, "<|tool_call_begin|>f<|tool_call_argument_begin|>", "||f {}f"},
      {kKimi, "<|tool_call_begin|>f:0<|tool_call_argument_begin|>7<|tool_call_end|>",
       "|<|tool_call_begin|>f:0<|tool_call_argument_begin|>7<|tool_call_end|>|"},
      {kSeed,
       "<seed:think>so</seed:think>\n<seed:tool_call>\n<function=f>\n<parameter=s>True</parameter>\n"
       "<parameter=b>True</parameter>\n</function>\n</seed:tool_call>",
       R"(so||f {"s":"True","b":true})"},
      {kSeed, "<function=f>\n<parameter=s>\na\n</parameter>\n</function></seed:tool_call>", R"(||f {"s":"\na\n"})"},
      {kSeed, "<function=f>\n</function></seed:tool_call> <seed:tool_call><function=g>", "||f {};g {}"},
      {kCommand,
       "<|START_THINKING|>plan<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
       "\"f\", \"parameters\": {\"s\": \"<|END_ACTION|>\"}},\n    {\"tool_name\": \"g\", "
       "\"parameters\": {}}\n]<|END_ACTION|>",
       R"(plan||f {"s":"<|END_ACTION|>"}0;g {})"},
      {kCommand, "<|START_RESPONSE|>Hello.<|END_RESPONSE|>", "|Hello.|"},
      {kDsml,
       "<think>hm</think>Ok.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"s\" "
       "string=\"true\">1\n2</｜DSML｜parameter>\n<｜DSML｜parameter name=\"o\" "
       "string=\"false\">{\"a\":[1]}</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke "
       "name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       R"(hm|Ok.|f {"s":"1\n2","o":{"a":[1]}};g {})"},
      {kDsml, "<｜DSML｜function_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"n\">7", R"(||f {"n":7})"},
  };
  return all;
}

}  // namespace

TEST_CASE("every family's thoughts and calls are read") {
  for (const Example& example : examples()) {
    CAPTURE(example.text);
    CHECK(read(example.format, example.text) == example.expected);
  }
}

TEST_CASE("an answer that begins within thoughts needs no opening tag") {
  CHECK(read(kGlm, "why\n</think>\nBecause.", true) == "why|Because.|");
  CHECK(read(kHermes, "never closed", true) == "never closed||");
}

TEST_CASE("a stream in any pieces gives what the whole text gives") {
  std::mt19937 random(7);
  for (const Example& example : examples()) {
    const std::string whole = read(example.format, example.text);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::string> pieces;
      for (size_t begin = 0; begin < example.text.size();) {
        const size_t size = 1 + random() % (round % 9 + 1);
        pieces.push_back(example.text.substr(begin, size));
        begin += size;
      }
      CAPTURE(example.text);
      CHECK(shown(parse(example.format, pieces)) == whole);
    }
  }
}

TEST_CASE("a text among the arguments is given out while it is written") {
  struct Begun {
    OutputFormat format;
    std::string text;
  };
  const std::vector<Begun> all = {
      {kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \""},
      {kGlm, "<tool_call>f<arg_key>s</arg_key><arg_value>"},
      {kCoder, "<tool_call>\n<function=f>\n<parameter=s>\n"},
      {kLlama, "{\"name\": \"f\", \"parameters\": {\"s\": \""},
      {kMistral, "[TOOL_CALLS]f[ARGS]{\"s\": \""},
      {kDeepSeek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\": \""},
      {kDeepSeek, "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"s\": \""},
      {kHarmony, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"s\": \""},
      {kGemma, "<|tool_call>call:f{s:<|\"|>"},
      {kKimi, "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"s\": \""},
      {kSeed, "<seed:tool_call>\n<function=f>\n<parameter=s>"},
      {kCommand, "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"s\": \""},
      {kDsml, "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"s\" string=\"true\">"},
  };
  for (const Begun& begun : all) {
    CAPTURE(begun.text);
    const auto parser = OutputParser::make(begun.format, {false, tools()});
    Output so_far = parser->push(begun.text);
    std::string written = "{\"s\":\"";
    for (const char* piece : {"a", "bc", "\xC3\xA4", "d"}) {
      so_far.append(parser->push(piece));
      written += piece;
      REQUIRE(so_far.calls.size() == 1);
      CHECK(so_far.calls[0].name == "f");
      CHECK(so_far.calls[0].arguments == written);
    }
    so_far.append(parser->finish(TextEnd::cut));
    CHECK(so_far.calls[0].arguments == written);
    CHECK_FALSE(so_far.calls[0].is_whole);
    CHECK(so_far.content.empty());
  }
}

TEST_CASE("arguments that are cut say what is complete of them") {
  const auto object = [](const char* text) { return arguments_of({.arguments = text}).dump(); };
  CHECK(object(R"({"a":1,"b":[2,{"c":"x"},"y)") == R"({"a":1,"b":[2,{"c":"x"}]})");
  CHECK(object(R"({"a":1,"b":tr)") == R"({"a":1})");
  CHECK(object(R"({"a":{"b":"}, ]","c")") == R"({"a":{"b":"}, ]"}})");
  CHECK(object(R"({"a)") == "{}");
  CHECK(object("{oops}") == "{}");
  CHECK(object("") == "{}");
}

TEST_CASE("tags in any order neither crash nor hang, and pieces still do not matter") {
  const std::vector<std::string> parts = {"<tool_call>",
                                          "</tool_call>",
                                          "<think>",
                                          "</think>",
                                          "{\"name\":\"f\"}",
                                          "<function=f>",
                                          "</function>",
                                          "<arg_key>",
                                          "</arg_value>",
                                          "[TOOL_CALLS]",
                                          "text ",
                                          "\"",
                                          "{",
                                          "}",
                                          "<|channel|>",
                                          "<|message|>",
                                          "<|end|>",
                                          "<|start|>",
                                          "to=functions.f",
                                          "[ARGS]",
                                          "<|tool_call>",
                                          "<tool_call|>",
                                          "call:f{",
                                          "<｜tool▁call▁begin｜>",
                                          "<｜tool▁sep｜>",
                                          "<|tool_call_begin|>",
                                          "<|tool_call_argument_begin|>",
                                          "<seed:tool_call>",
                                          "<|START_ACTION|>",
                                          "<｜DSML｜function_calls>",
                                          "<｜DSML｜invoke name=\"f\">",
                                          "\n"};
  std::mt19937 random(11);
  for (const OutputFormat& format :
       {kHermes, kGlm, kCoder, kLlama, kMistral, kDeepSeek, kHarmony, kGemma, kKimi, kSeed, kCommand, kDsml}) {
    for (int round = 0; round < repetitions(200); ++round) {
      std::string text;
      for (int i = 0; i < 12; ++i) text += parts[random() % parts.size()];
      std::vector<std::string> bytes;
      for (char c : text) bytes.emplace_back(1, c);
      CAPTURE(text);
      CHECK(shown(parse(format, bytes)) == read(format, text));
    }
  }
}

TEST_CASE("the format of a family is seen in its template") {
  CHECK(detect_format("...<arg_key>...<tool_call>...").calls == CallStyle::glm);
  CHECK(detect_format("<tool_call>{{ call | tojson }}</tool_call>").calls == CallStyle::json_in_tags);
  CHECK(detect_format("<|start|>system<|channel|>").calls == CallStyle::harmony);
  CHECK(detect_format("<|im_start|>").calls == CallStyle::none);
  CHECK(detect_format("<|tool_calls_section_begin|><|tool_call_begin|>").calls == CallStyle::kimi);
  CHECK(detect_format("'<seed:tool_call>' <function= <parameter=x>").calls == CallStyle::seed);
  CHECK(detect_format("<|START_ACTION|>").calls == CallStyle::command);
  CHECK(detect_format("{%- set dsml_token = '｜DSML｜' -%}").calls == CallStyle::dsml);
  CHECK(ends_in_thoughts(kGlm, "<|assistant|><think>\n"));
  CHECK_FALSE(ends_in_thoughts(kGlm, "<|assistant|></think>"));
}
