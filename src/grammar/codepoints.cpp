#include "grammar/codepoints.h"

#include <algorithm>

namespace smelt {

void Codepoints::add(uint32_t first, uint32_t last) {
  if (last < first) return;
  std::vector<Range> merged;
  Range added{first, last};
  for (const Range& r : ranges_) {
    const bool apart = r.last + 1 < added.first || added.last + 1 < r.first;
    if (apart) {
      merged.push_back(r);
    } else {
      added = {std::min(added.first, r.first), std::max(added.last, r.last)};
    }
  }
  merged.push_back(added);
  std::sort(merged.begin(), merged.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  ranges_ = std::move(merged);
}

void Codepoints::add(const Codepoints& other) {
  for (const Range& r : other.ranges_) add(r.first, r.last);
}

Codepoints Codepoints::without(const Codepoints& other) const {
  Codepoints rest;
  for (const Range& r : ranges_) {
    uint32_t from = r.first;
    for (const Range& o : other.ranges_) {
      if (o.last < from) continue;
      if (o.first > r.last) break;
      if (o.first > from) rest.ranges_.push_back({from, o.first - 1});
      from = o.last + 1;
    }
    if (from <= r.last) rest.ranges_.push_back({from, r.last});
  }
  return rest;
}

Codepoints Codepoints::within(const Codepoints& other) const { return without(other.complement()); }

bool Codepoints::contains(uint32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [c](const Range& r) { return r.first <= c && c <= r.last; });
}

namespace {

int utf8_length(uint32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

uint8_t utf8_byte(uint32_t c, int length, int index) {
  static constexpr uint8_t kLead[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
  const int shift = 6 * (length - 1 - index);
  if (index == 0) return static_cast<uint8_t>(kLead[length] | (c >> shift));
  return static_cast<uint8_t>(0x80 | ((c >> shift) & 0x3F));
}

// Cuts [first, last] until all bytes but those behind a common prefix run over their whole range.
void split(uint32_t first, uint32_t last, std::vector<ByteSequence>& out) {
  for (uint32_t border : {0x80u, 0x800u, 0xD800u, 0xE000u, 0x10000u}) {
    if (first < border && border <= last) {
      split(first, border - 1, out);
      split(border, last, out);
      return;
    }
  }
  if (first >= 0xD800 && last < 0xE000) return;  // surrogates
  const int length = utf8_length(first);
  for (int k = 1; k < length; ++k) {
    const uint32_t low = (1u << (6 * k)) - 1;  // the last k bytes
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      split(first, first | low, out);
      split((first | low) + 1, last, out);
      return;
    }
    if ((last & low) != low) {
      split(first, (last & ~low) - 1, out);
      split(last & ~low, last, out);
      return;
    }
  }
  ByteSequence bytes;
  for (int i = 0; i < length; ++i) bytes.push_back({utf8_byte(first, length, i), utf8_byte(last, length, i)});
  out.push_back(std::move(bytes));
}

}  // namespace

std::vector<ByteSequence> utf8_sequences(Codepoints::Range range) {
  std::vector<ByteSequence> out;
  split(range.first, range.last, out);
  return out;
}

}  // namespace smelt
