// OutputParser: from the text that a model writes, as it comes, to thoughts, content and calls of tools.
//
//   "<think>easy</think>Let me look.<tool_call>{"name": "f", "arguments": {}}</tool_call>"
//     -> reasoning "easy", content "Let me look.", call f {}
//
// The text comes with the texts of its control tokens, in pieces of any size: the pieces do not change the result. A
// call is given out once it is complete. What looks like a call and cannot be read stays content; nothing gets lost.
// Tags that are missing or crossed (a call that ends with the answer, one that begins before another has ended) are
// taken as they were meant.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output_format.h"

namespace smelt {

struct ToolCall {
  std::string name;
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  std::string id;  // where the model gives one
  bool operator==(const ToolCall&) const = default;
};

struct Output {
  std::string reasoning, content;
  std::vector<ToolCall> calls;

  void append(const Output& more);
  bool operator==(const Output&) const = default;
};

struct OutputOptions {
  bool starts_in_thoughts = false;  // the prompt has begun them (ends_in_thoughts)
  // The tools of the chat, as in Chat: types of arguments for formats that do not show them.
  nlohmann::ordered_json tools = nlohmann::ordered_json::array();
};

class OutputParser {
 public:
  static std::unique_ptr<OutputParser> make(const OutputFormat& format, OutputOptions options);
  virtual ~OutputParser() = default;

  // What became clear with this piece of text.
  Output push(std::string_view text);
  // The rest. REQUIRES: no more calls.
  Output finish();

 protected:
  virtual void take(char byte, Output& out) = 0;
  virtual void end(Output& out) = 0;
};

}  // namespace smelt
