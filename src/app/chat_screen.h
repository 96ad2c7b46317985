// ChatScreen: what the user sees of an answer while it comes: thoughts dimmed or folded, content, calls of tools.
#pragma once

#include <string_view>

#include "app/markdown.h"
#include "app/stopwatch.h"
#include "chat/output_parser.h"

namespace smelt {

class ChatScreen {
 public:
  // Colours and styles where standard output is a terminal that has them.
  ChatScreen();

  bool fold_thoughts = false;  // one line in their place

  void begin();
  void show(const Output& part);
  void end();
  void note(std::string_view text);  // a line beside the conversation

 private:
  void write(std::string_view text);
  void write_content(std::string_view text);
  void leave_thoughts();

  bool colour_;
  Markdown markdown_;
  Stopwatch thinking_;
  bool in_thoughts_ = false, wrote_ = false;
};

}  // namespace smelt
