// The parser of formats that put thoughts and calls between tags in the middle of the text: all but harmony.
#pragma once

#include "chat/call_reader.h"
#include "chat/json_follower.h"
#include "chat/mark_finder.h"
#include "chat/output_parser.h"

namespace smelt {

class TaggedParser : public OutputParser {
 public:
  TaggedParser(const OutputFormat& format, OutputOptions options);

 protected:
  void take(char byte, Output& out) override;
  void end(TextEnd how, Output& out) override;

 private:
  enum class State { content, thoughts, call };

  std::vector<std::string_view> marks() const;
  void on_mark(std::string_view mark, Output& out);
  void on_byte(char byte, Output& out);
  void write(char byte, Output& out);
  void begin_call(std::string_view mark, Output& out);
  void end_call(std::string_view mark, TextEnd how, Output& out);
  bool begins_bare_call(char byte) const;

  OutputFormat format_;
  OutputOptions options_;
  std::vector<std::string_view> call_begins_, call_ends_, ignored_;
  MarkFinder finder_;
  State state_ = State::content;
  State before_call_ = State::content;
  std::string spaces_;         // written once something follows them
  bool skips_spaces_ = false;  // at the start of thoughts and behind thoughts and calls
  bool wrote_content_ = false;
  // Of a call:
  std::string opened_by_;
  std::unique_ptr<CallReader> reader_;
  JsonFollower json_;
};

}  // namespace smelt
