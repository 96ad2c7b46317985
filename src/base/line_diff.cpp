#include "base/line_diff.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace smelt {
namespace {

constexpr size_t kMostCells = 4 << 20;  // of the table of common subsequences

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Lines that are the same in both, with the changes between them.
class Diff {
 public:
  std::string text;

  void same() { ++same_; }
  void gone(std::string_view line) { add("- ", line); }
  void came(std::string_view line) { add("+ ", line); }
  std::string finish() {
    say_same();
    return std::move(text);
  }

 private:
  void add(const char* mark, std::string_view line) {
    say_same();
    text.append(mark).append(line).append("\n");
  }
  void say_same() {
    if (same_ > 0) text += "  (" + std::to_string(same_) + (same_ == 1 ? " line" : " lines") + " as before)\n";
    same_ = 0;
  }
  size_t same_ = 0;
};

// The middle parts, which differ at both ends: by their longest common subsequence.
void diff_middle(const Lines& a, size_t a_begin, size_t a_end, const Lines& b, size_t b_begin, size_t b_end,
                 Diff& diff) {
  const size_t rows = a_end - a_begin, columns = b_end - b_begin;
  size_t i = 0, j = 0;
  if (rows * columns <= kMostCells) {
    std::vector<uint32_t> common((rows + 1) * (columns + 1));  // of what is left from here
    const auto at = [&](size_t r, size_t c) -> uint32_t& { return common[r * (columns + 1) + c]; };
    for (size_t r = rows; r-- > 0;)
      for (size_t c = columns; c-- > 0;)
        at(r, c) = a[a_begin + r] == b[b_begin + c] ? at(r + 1, c + 1) + 1 : std::max(at(r + 1, c), at(r, c + 1));
    while (i < rows && j < columns) {
      if (a[a_begin + i] == b[b_begin + j]) {
        diff.same();
        ++i, ++j;
      } else if (at(i + 1, j) >= at(i, j + 1)) {
        diff.gone(a[a_begin + i++]);
      } else {
        diff.came(b[b_begin + j++]);
      }
    }
  }
  for (; i < rows; ++i) diff.gone(a[a_begin + i]);
  for (; j < columns; ++j) diff.came(b[b_begin + j]);
}

}  // namespace

std::string line_diff(std::string_view before, std::string_view after) {
  const Lines a = lines_of(before), b = lines_of(after);
  size_t front = 0, back = 0;
  while (front < std::min(a.size(), b.size()) && a[front] == b[front]) ++front;
  while (back < std::min(a.size(), b.size()) - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  Diff diff;
  for (size_t i = 0; i < front; ++i) diff.same();
  diff_middle(a, front, a.size() - back, b, front, b.size() - back, diff);
  for (size_t i = 0; i < back; ++i) diff.same();
  return diff.finish();
}

}  // namespace smelt
