// LineEditor: a line from the user, with history and the keys of libedit.
#pragma once

#include <memory>
#include <string>

namespace smelt {

class LineEditor {
 public:
  enum class Outcome { line, interrupted, end };

  // `history_file`: empty for none.
  explicit LineEditor(std::string history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The line without its end. Ctrl-C gives up the line, Ctrl-D on an empty one is the end.
  Outcome read(const std::string& prompt, std::string& line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
