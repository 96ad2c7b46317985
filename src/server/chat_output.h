// ChatOutput: from the tokens of an answer in a chat to thoughts, content and calls of tools, up to a stop string.
#pragma once

#include <memory>
#include <span>

#include "chat/output_parser.h"
#include "server/backend.h"
#include "server/served_model.h"
#include "server/stop_text.h"

namespace smelt {

class ChatOutput {
 public:
  ChatOutput(const ServedModel& model, std::vector<std::string> stops, OutputOptions options);

  // What became clear with these tokens, and the rest.
  Output push(std::span<const int32_t> tokens);
  Output finish(Finish reason);

  const Output& whole() const { return whole_; }
  size_t calls() const { return whole_.calls.size(); }
  // The text was cut within a call.
  bool is_cut_in_call() const { return is_cut_ && !whole_.calls.empty() && !whole_.calls.back().is_whole; }
  int64_t thought_tokens() const { return thought_tokens_; }
  bool holds_back() const { return stop_.holds_back(); }     // what may become a stop string, or is one
  const std::string& stop() const { return stop_.found(); }  // empty: none has come

 private:
  StreamDecoder decoder_;
  StopText stop_;
  std::unique_ptr<OutputParser> parser_;
  Output whole_;
  int64_t thought_tokens_ = 0;
  bool is_cut_ = false;
};

}  // namespace smelt
