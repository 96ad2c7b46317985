// The parser of harmony, gpt-oss' format: messages with headers.
//
//   <|channel|>analysis<|message|>thoughts<|end|>
//   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
//   <|start|>assistant<|channel|>final<|message|>the answer<|return|>
#pragma once

#include <optional>

#include "chat/argument_text.h"
#include "chat/mark_finder.h"
#include "chat/output_parser.h"

namespace smelt {

class HarmonyParser : public OutputParser {
 protected:
  void take(char byte, Output& out) override;
  void end(TextEnd how, Output& out) override;

 private:
  enum class State { header, thoughts, content, call };

  void on_mark(std::string_view mark, Output& out);
  void on_byte(char byte, Output& out);
  void begin_body(Output& out);
  void call_byte(char byte, Output& out);
  void end_message(TextEnd how, Output& out);

  MarkFinder finder_;
  State state_ = State::header;
  std::string header_;
  std::string body_;  // of a call, before its arguments and behind them
  std::optional<ArgumentText> arguments_;
  bool wrote_thoughts_ = false, wrote_content_ = false;
};

}  // namespace smelt
