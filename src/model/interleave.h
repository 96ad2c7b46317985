// The copying loop behind interleaved weights (WeightLayout in dequant.h): a transposition of words.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt {

// `words` words of each of `rows` rows, the rows `stride` bytes apart, become words of neighbouring rows:
//   a0 a1 a2 ...  b0 b1 b2 ...   ->   a0 b0 a1 b1 a2 b2 ...
// Words have 1, 2, 4 or 16 bytes and need no alignment. Those of the next place go `to_stride` bytes behind: rows *
// word_bytes, or more where other bytes lie between. `to` and `from` do not overlap.
void interleave_words(int word_bytes, const std::byte* from, int64_t stride, int rows, int words, std::byte* to,
                      int64_t to_stride);

}  // namespace smelt
