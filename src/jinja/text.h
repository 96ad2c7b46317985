// Text: a string that remembers which of its bytes came from outside.
//
// A rendered prompt mixes what the template says with what users typed, and only the first may hold special tokens. So
// every string of a rendering carries the ranges of its bytes that are a user's, and concatenating, cutting, stripping
// and replacing keep them:
//
//   "<|user|>" + user("<|end|>")   ==   bytes "<|user|><|end|>", user ranges [8, 15)
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::jinja {

class Text {
 public:
  struct Range {
    size_t begin, end;
    bool operator==(const Range&) const = default;
  };
  enum class Origin { trusted, user };

  Text() = default;
  explicit Text(std::string bytes, Origin origin = Origin::trusted);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // The bytes that came from outside: ascending, apart from each other, none of them empty.
  std::span<const Range> user() const { return user_; }
  bool has_user_bytes() const { return !user_.empty(); }

  void append(std::string_view trusted) { bytes_ += trusted; }
  void append(const Text& other);
  // The bytes from `begin` to `end`. REQUIRES: begin <= end <= size().
  Text slice(size_t begin, size_t end) const;
  // Other bytes in place of these, made of them: all are the user's if any of these were.
  Text remade(std::string bytes) const;

  // jinja2's Markup, which the filters safe and escape make: adding another text to it with + escapes that one.
  bool is_markup() const { return markup_; }
  Text as_markup() const { return marked(true); }
  Text as_plain() const { return marked(false); }

 private:
  void add_user_range(Range range);
  Text marked(bool markup) const;

  std::string bytes_;
  std::vector<Range> user_;
  bool markup_ = false;
};

}  // namespace smelt::jinja
