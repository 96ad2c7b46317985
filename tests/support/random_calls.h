// Random answers with calls of tools in the formats of all families, chosen token by token as a model would, and read
// again.
#pragma once

#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "chat/output_parser.h"
#include "chat/tool_grammar.h"
#include "grammar/constraint.h"

namespace smelt::test {

struct CallFamily {
  std::string name;
  OutputFormat format;
  std::vector<std::string> control;  // marks that are control tokens there,
  std::vector<std::string> words;    // and those that are tokens of the text
};

inline const std::vector<CallFamily>& call_families() {
  static const std::vector<CallFamily> all = {
      {"Hermes", {CallStyle::json_in_tags, "<think>", "</think>"}, {}, {"<tool_call>", "</tool_call>"}},
      {"GLM",
       {CallStyle::glm, "<think>", "</think>"},
       {},
       {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<think>",
        "</think>"}},
      {"Qwen3-Coder", {CallStyle::qwen_coder}, {}, {"<tool_call>", "</tool_call>", "<function", "\n</parameter>\n"}},
      {"Llama 3", {CallStyle::llama3}, {"<|python_tag|>"}, {"; "}},
      {"Mistral", {CallStyle::mistral}, {"[TOOL_CALLS]", "[ARGS]"}, {}},
      {"Mistral, older", {CallStyle::mistral, "", "", true}, {"[TOOL_CALLS]"}, {}},
      {"DeepSeek",
       {CallStyle::deepseek, "<think>", "</think>"},
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>"},
       {}},
      {"DeepSeek, older",
       {CallStyle::deepseek, "", "", true},
       {},
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "```json"}},
      {"gpt-oss",
       {CallStyle::harmony},
       {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"},
       {"assistant", "analysis", "commentary", " to=functions."}},
      {"Kimi",
       {CallStyle::kimi, "<think>", "</think>"},
       {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
        "<|tool_calls_section_end|>"},
       {"functions."}},
      {"Seed",
       {CallStyle::seed, "<seed:think>", "</seed:think>"},
       {"<seed:tool_call>", "</seed:tool_call>", "<seed:think>", "</seed:think>"},
       {"<function", "</parameter>\n"}},
      {"Command",
       {CallStyle::command, "<|START_THINKING|>", "<|END_THINKING|>"},
       {"<|START_ACTION|>", "<|END_ACTION|>", "<|START_THINKING|>", "<|END_THINKING|>"},
       {"tool_name"}},
      {"DeepSeek V3.2",
       {CallStyle::dsml},
       {},
       {"<｜DSML｜function_calls>\n", "<｜DSML｜invoke name=\"", "</｜DSML｜invoke>\n", "<｜DSML｜parameter name=\"",
        "</｜DSML｜parameter>\n", "</｜DSML｜function_calls>"}},
      {"Gemma", {CallStyle::gemma, "<|channel>", "<channel|>"}, {"<|tool_call>", "<tool_call|>", "<|\"|>"}, {}},
  };
  return all;
}

// All bytes, what JSON is made of, and the family's marks.
inline std::shared_ptr<const TokenTable> vocabulary_of(const CallFamily& family) {
  std::vector<std::string> pieces{""};
  for (int b = 0; b < 255; ++b) pieces.emplace_back(1, static_cast<char>(b));
  for (const char* p : {"\",",
                        "\": ",
                        "{\"",
                        "\"}",
                        "}}",
                        "true",
                        "12",
                        "-1",
                        "abc",
                        "name",
                        "\xC3\xA4",
                        "\xE2\x82",
                        "\n",
                        ">\n",
                        "</",
                        "<t",
                        "ool",
                        "_call>",
                        "{\"name\": \"f\", ",
                        "f[",
                        "} "})
    pieces.emplace_back(p);
  for (const std::string& mark : family.control) pieces.push_back(TokenTable::control(mark));
  pieces.insert(pieces.end(), family.words.begin(), family.words.end());
  return std::make_shared<const TokenTable>(std::move(pieces));
}

struct RandomAnswer {
  std::string text;  // empty: it did not come to an end in time
  Output output;
};

// What readers of an answer see of a token.
inline std::string shown(const TokenTable& tokens, int32_t token) {
  const std::string_view piece = tokens.piece(token);
  return std::string(piece.substr(piece.starts_with(TokenTable::control("")) ? 1 : 0));
}

// Marks are chosen often, and often where the text is long, so that it ends.
inline int32_t random_token(const TokenMask& mask, const TokenTable& tokens, std::mt19937& random, bool is_long) {
  std::vector<int32_t> allowed, preferred;
  for (int32_t t = 0; t < tokens.vocabulary_size(); ++t) {
    if (!mask.has(t)) continue;
    allowed.push_back(t);
    const bool is_mark = t > 256 + 20,
               closes = std::string_view("\"]},:0<").find(tokens.piece(t)[0]) != std::string_view::npos;
    if (is_mark || (is_long && closes)) preferred.push_back(t);
  }
  if (allowed.empty()) return -1;
  const bool prefers = !preferred.empty() && random() % (is_long ? 3 : 8) != 0;
  return prefers && (is_long || random() % 4 == 0) ? preferred[random() % preferred.size()]
                                                   : allowed[random() % allowed.size()];
}

inline std::string random_answer(Constraint& constraint, const TokenTable& tokens, std::mt19937& random,
                                 size_t longest) {
  std::string text;
  while (text.size() < longest) {
    const bool is_long = text.size() > 120;
    if (constraint.can_end() && (is_long || random() % 4 == 0)) return text;
    const int32_t next = random_token(constraint.mask(), tokens, random, is_long);
    if (next < 0) return constraint.can_end() ? text : "";
    if (const Status accepted = constraint.accept(next); !accepted) {
      if (accepted.error().message.find("too many ways") != std::string::npos) return {};
      throw std::logic_error("the mask allows a token that the grammar refuses");
    }
    text += shown(tokens, next);
  }
  return {};
}

inline Result<RandomAnswer> random_calls(const CallFamily& family, const nlohmann::ordered_json& tools,
                                         std::mt19937& random, ToolRules rules = {.must_call = true},
                                         size_t longest = 20'000) {
  const auto tokens = vocabulary_of(family);
  SMELT_TRY(grammar, tool_grammar(family.format, tools, rules, *tokens));
  SMELT_TRY(masks, TokenMasks::make(grammar, tokens));
  Constraint constraint(masks);
  RandomAnswer answer{.text = random_answer(constraint, *tokens, random, longest), .output = {}};
  const auto parser = OutputParser::make(family.format, {rules.starts_in_thoughts, tools});
  answer.output = parser->push(answer.text);
  answer.output.append(parser->finish());
  return answer;
}

}  // namespace smelt::test
