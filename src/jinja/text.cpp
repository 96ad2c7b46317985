#include "jinja/text.h"

#include <algorithm>

namespace smelt::jinja {

Text::Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (origin == Origin::user) add_user_range({0, bytes_.size()});
}

void Text::add_user_range(Range range) {
  if (range.begin == range.end) return;
  if (!user_.empty() && user_.back().end == range.begin) {
    user_.back().end = range.end;
  } else {
    user_.push_back(range);
  }
}

void Text::append(const Text& other) {
  const size_t shift = bytes_.size();
  bytes_ += other.bytes_;
  // By index: a text may be appended to itself.
  for (size_t i = 0, count = other.user_.size(); i < count; ++i) {
    const Range range = other.user_[i];
    add_user_range({range.begin + shift, range.end + shift});
  }
}

Text Text::slice(size_t begin, size_t end) const {
  Text part;
  part.bytes_ = bytes_.substr(begin, end - begin);
  part.markup_ = markup_;
  const auto ends_before = [&](const Range& range, size_t at) { return range.end <= at; };
  auto range = std::lower_bound(user_.begin(), user_.end(), begin, ends_before);
  for (; range != user_.end() && range->begin < end; ++range) {
    part.add_user_range({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
  }
  return part;
}

Text Text::remade(std::string bytes) const {
  Text text(std::move(bytes), has_user_bytes() ? Origin::user : Origin::trusted);
  text.markup_ = markup_;
  return text;
}

Text Text::marked(bool markup) const {
  Text text = *this;
  text.markup_ = markup;
  return text;
}

}  // namespace smelt::jinja
