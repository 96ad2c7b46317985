// Markdown: the little of it that models write everywhere, for a terminal, as the text comes: headings and **bold**
// words bold, `code` and fenced code coloured, bullets as dots. All else stays as it is.
#pragma once

#include <string>
#include <string_view>

namespace smelt {

class Markdown {
 public:
  // What can be shown by now; up to three characters are held back until it is clear what they mean.
  std::string push(std::string_view text);
  // The rest, and the plain style again.
  std::string finish();

 private:
  void take(char c, std::string& out);
  void take_at_line_start(char c, std::string& out);
  void take_in_line(char c, std::string& out);
  void end_of_marks(std::string& out);
  void end_of_line(std::string& out);
  void set_style(std::string& out) const;

  enum class Fence { none, opening, inside, closing };
  std::string line_start_;  // marks that may begin a line
  std::string marks_;       // stars or backticks that may go on
  bool at_start_ = true;
  Fence fence_ = Fence::none;
  bool heading_ = false, bold_ = false, code_ = false;
};

}  // namespace smelt
