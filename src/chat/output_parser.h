// OutputParser: from the text that a model writes, as it comes, to thoughts, content and calls of tools.
//
//   "<think>easy</think>Let me look.<tool_call>{"name": "f", "arguments": {}}</tool_call>"
//     -> reasoning "easy", content "Let me look.", call f {}
//
// The text comes with the texts of its control tokens, in pieces of any size: the pieces do not change the result. A
// call is given out as it comes: its name once its arguments begin, then these. What looks like a call and has no such
// begin stays content; nothing gets lost. Tags that are missing or crossed (a call that ends with the answer, one that
// begins before another has ended) are taken as they were meant.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output_format.h"

namespace smelt {

struct ToolCall {
  std::string name = {};
  std::string arguments = {};  // the text of a JSON object, or the begin of one
  std::string id = {};         // where the model gives one
  bool is_whole = false;       // its arguments have come to their end
  bool operator==(const ToolCall&) const = default;
};

struct Output {
  std::string reasoning = {}, content = {};
  std::vector<ToolCall> calls = {};
  bool continues_call = false;  // the first of them is more of the last one before, without a name

  void append(const Output& more);
  // One call at a time comes in pieces.
  void begin_call(std::string name, std::string id);
  void grow_call(std::string_view arguments);
  void end_call();
  bool operator==(const Output&) const = default;

 private:
  ToolCall& open_call();
};

// How a text ends.
enum class TextEnd {
  complete,  // the model had no more to say, or a mark came: what is open was meant to end here
  cut,       // in the middle: at the longest length, or at a stop string
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
  // The rest. A call that a cut leaves open stays so (ToolCall::is_whole). REQUIRES: this object is not called again.
  Output finish(TextEnd how = TextEnd::complete);

 protected:
  virtual void take(char byte, Output& out) = 0;
  virtual void end(TextEnd how, Output& out) = 0;
};

// The arguments as an object; of some that are cut or malformed, what they say up to there.
nlohmann::ordered_json arguments_of(const ToolCall& call);

}  // namespace smelt
