// StopText: cuts a text that comes in pieces in front of the first stop string, and holds back what may become one.
//
//   StopText stop({"\nUser:"});   push("Yes.\nUs") == "Yes."   push("er: No") == ""   found()
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smelt {

class StopText {
 public:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What can be given out now. Nothing more once one was found.
  std::string push(std::string_view text);
  // What was held back. REQUIRES: no more text comes.
  std::string finish() { return found_.empty() ? std::move(held_) : std::string(); }
  // Whether there is text that was pushed and not given out.
  bool holds_back() const { return !held_.empty(); }
  // The one that was found; empty: none.
  const std::string& found() const { return found_; }

 private:
  size_t possible_start() const;

  std::vector<std::string> stops_;  // none is empty
  std::string held_, found_;
};

}  // namespace smelt
