#include "app/markdown.h"

#include <utility>

namespace smelt {
namespace {

constexpr std::string_view kFence = "```";

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

}  // namespace

std::string Markdown::push(std::string_view text) {
  std::string out;
  for (char c : text) take(c, out);
  return out;
}

std::string Markdown::finish() {
  std::string out = std::exchange(line_start_, {});
  end_of_marks(out);
  const bool is_styled = heading_ || bold_ || code_ || fence_ != Fence::none;
  *this = Markdown();
  if (is_styled) set_style(out);
  return out;
}

void Markdown::set_style(std::string& out) const {
  out += "\033[0m";
  if (heading_ || bold_) out += "\033[1m";
  if (code_ || fence_ != Fence::none) out += "\033[36m";
}

void Markdown::take(char c, std::string& out) {
  if (at_start_)
    take_at_line_start(c, out);
  else
    take_in_line(c, out);
}

// Indentation is shown at once; what follows it may be a fence, a heading or a bullet.
void Markdown::take_at_line_start(char c, std::string& out) {
  const bool in_fence = fence_ == Fence::inside;
  if (line_start_.empty() && c == ' ') {
    out += c;
    return;
  }
  const bool may_go_on =
      c == '`'   ? line_start_ == kFence.substr(0, line_start_.size()) && line_start_.size() < 3
      : c == '#' ? !in_fence && line_start_.find_first_not_of('#') == line_start_.npos && line_start_.size() < 6
                 : (c == '-' || c == '*') && !in_fence && line_start_.empty();
  if (may_go_on) {
    line_start_ += c;
    if (line_start_ != kFence) return;
    at_start_ = false;
    line_start_.clear();
    fence_ = in_fence ? Fence::closing : Fence::opening;
    set_style(out);
    out += kFence;
    return;
  }
  const std::string start = std::exchange(line_start_, {});
  at_start_ = false;
  if (start == "-" || start == "*") {
    if (c == ' ') {
      out += "\xE2\x80\xA2 ";
      return;
    }
  } else if (start.starts_with('#') && c == ' ') {
    heading_ = true;
    set_style(out);
    out += start;
  } else if (start.starts_with('#')) {
    out += start;
  }
  if (start.starts_with('*') || start.starts_with('`')) {
    for (char mark : start) take_in_line(mark, out);
  } else if (start == "-") {
    out += start;
  }
  take_in_line(c, out);
}

void Markdown::take_in_line(char c, std::string& out) {
  if (c == '\n') return end_of_line(out);
  const bool is_text = fence_ != Fence::none;
  if (!is_text && (c == '*' || c == '`') && (marks_.empty() || marks_[0] == c)) {
    marks_ += c;
    if (c == '`') end_of_marks(out);
    return;
  }
  if (!marks_.empty()) {
    // Stars with a space behind them begin nothing: 2 ** 3.
    if (marks_ == "**" && !bold_ && is_space(c)) out += std::exchange(marks_, {});
    end_of_marks(out);
    return take_in_line(c, out);
  }
  out += c;
}

void Markdown::end_of_marks(std::string& out) {
  const std::string marks = std::exchange(marks_, {});
  if (marks == "**" && !code_) {
    bold_ = !bold_;
    set_style(out);
  } else if (marks == "`") {
    code_ = !code_;
    set_style(out);
  } else {
    out += marks;
  }
}

// Styles of a line end with it: what was opened and never closed is no style.
void Markdown::end_of_line(std::string& out) {
  end_of_marks(out);
  const bool was_styled = heading_ || bold_ || code_ || fence_ == Fence::closing;
  heading_ = bold_ = code_ = false;
  if (fence_ == Fence::opening) fence_ = Fence::inside;
  if (fence_ == Fence::closing) fence_ = Fence::none;
  if (was_styled) set_style(out);
  out += '\n';
  at_start_ = true;
}

}  // namespace smelt
