// Sets of Unicode codepoints, as sorted ranges: what a character class of a grammar or a regular expression names.
#pragma once

#include <cstdint>
#include <vector>

namespace smelt {

constexpr uint32_t kLastCodepoint = 0x10FFFF;

class Codepoints {
 public:
  struct Range {
    uint32_t first, last;  // both inside
    bool operator==(const Range&) const = default;
  };

  Codepoints() = default;
  Codepoints(uint32_t first, uint32_t last) { add(first, last); }
  static Codepoints one(uint32_t c) { return {c, c}; }
  static Codepoints all() { return {0, kLastCodepoint}; }

  void add(uint32_t first, uint32_t last);  // nothing if last < first
  void add(const Codepoints& other);
  Codepoints without(const Codepoints& other) const;
  Codepoints within(const Codepoints& other) const;
  Codepoints complement() const { return all().without(*this); }
  bool contains(uint32_t c) const;
  bool empty() const { return ranges_.empty(); }

  // Ascending, apart from each other by at least one codepoint.
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const Codepoints&) const = default;

 private:
  std::vector<Range> ranges_;
};

// The UTF-8 forms of a range: each sequence is one byte range for each of its 1 to 4 bytes. Surrogates are left out, as
// UTF-8 has no form for them.
struct ByteRange {
  uint8_t first, last;
};
using ByteSequence = std::vector<ByteRange>;
std::vector<ByteSequence> utf8_sequences(Codepoints::Range range);

}  // namespace smelt
