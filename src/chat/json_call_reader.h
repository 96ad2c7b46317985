// Calls as JSON objects, one after the other or in a list:
//
//   {"name": "f", "arguments": {...}}; {"name": "g", "parameters": {...}}
//   [{"tool_call_id": "0", "tool_name": "f", "parameters": {...}}]
#pragma once

#include <optional>

#include "chat/argument_text.h"
#include "chat/call_reader.h"

namespace smelt {

class JsonCallReader : public CallReader {
 public:
  struct Options {
    bool id_may_follow = false;                    // behind the arguments: so a call is given out as a whole
    const nlohmann::ordered_json* only = nullptr;  // only calls of these tools are some, which outlive the reader
  };
  explicit JsonCallReader(const Options& options) : options_(options) {}

  void take(char byte, Output& out) override;
  std::string end(TextEnd how, Output& out) override;

 private:
  enum class State {
    between,    // objects
    object,     // of which the arguments have not begun
    arguments,  // that are given out as they come
    rest,       // of an object, behind its arguments
    no_call,    // it is something else
  };

  bool may_be_called(const std::string& name) const;
  void begin_object();
  void begin_arguments(Output& out);
  void end_object(Output& out);

  const Options options_;
  State state_ = State::between;
  JsonFollower json_;
  std::string text_;     // since the last call
  size_t begin_ = 0;     // of the object in text_
  int outer_depth_ = 0;  // around it
  std::optional<ArgumentText> arguments_;
};

}  // namespace smelt
