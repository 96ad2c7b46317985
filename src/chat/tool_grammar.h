// The grammar of an answer that may call tools: calls in the format of the model's family, with arguments that the
// tools' schemas accept, so that a call that cannot be read cannot be written.
//
//   auto tokens = TokenTable::of(tokenizer);
//   auto grammar = tool_grammar(format, chat.tools, {.must_call = true}, *tokens);
//   auto masks = TokenMasks::make(*grammar, tokens);      // then a Constraint for each answer, from its first token on
//
// Text around the calls is free: every token may be chosen there, but one that would begin a call and spoil it. With a
// schema for the content, an answer is calls or such a content, behind the thoughts.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "chat/output_format.h"
#include "grammar/grammar.h"
#include "grammar/token_table.h"

namespace smelt {

struct ToolRules {
  bool must_call = false;           // no answer without a call; nothing but thoughts comes before it
  std::string only = {};            // the one tool that may be called; empty: any
  bool parallel = true;             // several calls in an answer
  bool starts_in_thoughts = false;  // the prompt has begun them (ends_in_thoughts)
  // What an answer without calls has to be: a schema, or null for any JSON object. Nothing: any text.
  std::optional<nlohmann::ordered_json> content = {};
};

// An Error: the format has no calls, a tool has no usable name, `only` is none of them, or a schema of a tool that is
// `strict` cannot be held to. Of another tool with such a schema the arguments may be any.
Result<Grammar> tool_grammar(const OutputFormat& format, const nlohmann::ordered_json& tools, const ToolRules& rules,
                             const TokenTable& tokens);

}  // namespace smelt
