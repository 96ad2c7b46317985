// Cursor: reads a grammar or a regular expression character by character, and says where something is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/utf8.h"

namespace smelt {

class Cursor {
 public:
  static constexpr uint32_t kEnd = 0xFFFFFFFF;

  // `what` stands in errors: "[grammar] line 2, column 5: ...".
  Cursor(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  bool at_end() const { return pos_ >= text_.size(); }
  uint32_t peek() const { return at_end() ? kEnd : utf8_at(text_, pos_).codepoint; }
  uint32_t take() {
    if (at_end()) return kEnd;
    const Utf8Char c = utf8_at(text_, pos_);
    pos_ += c.length;
    return c.status == Utf8::valid ? c.codepoint : 0xFFFD;
  }
  bool take_if(uint32_t c) { return peek() == c && (take(), true); }
  bool take_if(std::string_view word) {
    if (!text_.substr(pos_).starts_with(word)) return false;
    pos_ += word.size();
    return true;
  }
  size_t position() const { return pos_; }
  void back_to(size_t position) { pos_ = position; }
  std::string_view from(size_t begin) const { return text_.substr(begin, pos_ - begin); }

  // A whole number below 10^6; -1 if there is none here.
  int number() {
    int value = -1;
    while (peek() >= '0' && peek() <= '9' && value < 100'000)
      value = (value < 0 ? 0 : value * 10) + static_cast<int>(take() - '0');
    return value;
  }
  // A hexadecimal number of exactly so many digits; kEnd if there is none.
  uint32_t hexadecimal(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const uint32_t c = take();
      if (c >= '0' && c <= '9')
        value = value * 16 + (c - '0');
      else if ((c | 32) >= 'a' && (c | 32) <= 'f')
        value = value * 16 + ((c | 32) - 'a' + 10);
      else
        return kEnd;
    }
    return value;
  }

  Error error(const std::string& problem) const {
    size_t line = 1, column = 1;
    for (char c : text_.substr(0, pos_)) c == '\n' ? (++line, column = 1) : ++column;
    const std::string where = line == 1 && text_.find('\n') == std::string_view::npos
                                  ? "character " + std::to_string(column)
                                  : "line " + std::to_string(line) + ", column " + std::to_string(column);
    return {what_ + " " + where + ": " + problem};
  }

 private:
  std::string_view text_;
  std::string what_;
  size_t pos_ = 0;
};

}  // namespace smelt
