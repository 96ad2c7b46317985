// The parser of harmony, gpt-oss' format: messages with headers.
//
//   <|channel|>analysis<|message|>thoughts<|end|>
//   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
//   <|start|>assistant<|channel|>final<|message|>the answer<|return|>
#pragma once

#include "chat/mark_finder.h"
#include "chat/output_parser.h"

namespace smelt {

class HarmonyParser : public OutputParser {
 protected:
  void take(char byte, Output& out) override;
  void end(Output& out) override;

 private:
  enum class State { header, thoughts, content, call };

  void on_mark(std::string_view mark, Output& out);
  void on_byte(char byte, Output& out);
  void begin_body(Output& out);
  void end_message(Output& out);

  MarkFinder finder_;
  State state_ = State::header;
  std::string header_, body_;
  bool wrote_thoughts_ = false, wrote_content_ = false;
};

}  // namespace smelt
