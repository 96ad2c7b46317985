// MarkFinder: finds marks in a text that comes byte by byte, without giving out the start of one.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace smelt {

class MarkFinder {
 public:
  // Calls on_mark(mark) for each mark of `marks()` and on_byte(byte) for every other byte, in order. `marks` is asked
  // again after each call, as what counts may have changed.
  template <class Marks, class OnMark, class OnByte>
  void push(char byte, const Marks& marks, const OnMark& on_mark, const OnByte& on_byte) {
    held_ += byte;
    while (!held_.empty()) {
      const std::string_view mark = whole_mark(marks());
      if (!mark.empty()) {
        held_.clear();
        return on_mark(mark);
      }
      if (may_become_mark(marks())) return;
      const char first = held_.front();
      held_.erase(0, 1);
      on_byte(first);
    }
  }

  // What was held back: the start of a mark that never came.
  std::string take_rest() { return std::exchange(held_, {}); }

 private:
  std::string_view whole_mark(const std::vector<std::string_view>& marks) const {
    for (std::string_view mark : marks) {
      if (held_ == mark) return mark;
    }
    return {};
  }
  bool may_become_mark(const std::vector<std::string_view>& marks) const {
    for (std::string_view mark : marks) {
      if (mark.starts_with(held_)) return true;
    }
    return false;
  }

  std::string held_;
};

}  // namespace smelt
