#include "model/interleave.h"

#include <cstring>

#include "base/ensure.h"

namespace smelt {
namespace {

// Four words of 32 bits; every processor we know has registers for that.
using Four = uint32_t __attribute__((vector_size(16)));

Four load(const std::byte* from) {
  Four v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

void store(Four v, std::byte* to) { std::memcpy(to, &v, sizeof v); }

// A tile of 4 rows and 4 words in registers.
void transpose(const std::byte* from, int64_t stride, std::byte* to, int64_t to_stride) {
  const Four a = load(from), b = load(from + stride), c = load(from + 2 * stride), d = load(from + 3 * stride);
  const Four ab01 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab23 = __builtin_shufflevector(a, b, 2, 6, 3, 7),
             cd01 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd23 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(__builtin_shufflevector(ab01, cd01, 0, 1, 4, 5), to);
  store(__builtin_shufflevector(ab01, cd01, 2, 3, 6, 7), to + to_stride);
  store(__builtin_shufflevector(ab23, cd23, 0, 1, 4, 5), to + 2 * to_stride);
  store(__builtin_shufflevector(ab23, cd23, 2, 3, 6, 7), to + 3 * to_stride);
}

template <int bytes>
void one_by_one(const std::byte* from, int64_t stride, int rows, int words, std::byte* to, int64_t to_stride) {
  for (int w = 0; w < words; ++w, from += bytes, to += to_stride) {
    const std::byte* row = from;
    for (int r = 0; r < rows; ++r, row += stride) std::memcpy(to + r * bytes, row, bytes);
  }
}

}  // namespace

void interleave_words(int word_bytes, const std::byte* from, int64_t stride, int rows, int words, std::byte* to,
                      int64_t to_stride) {
  if (word_bytes == 1) return one_by_one<1>(from, stride, rows, words, to, to_stride);
  if (word_bytes == 2) return one_by_one<2>(from, stride, rows, words, to, to_stride);
  if (word_bytes == 16) return one_by_one<16>(from, stride, rows, words, to, to_stride);
  ENSURE(word_bytes == 4, "words have 1, 2, 4 or 16 bytes");
  const int tiled = rows % 4 == 0 ? words / 4 * 4 : 0;
  for (int w = 0; w < tiled; w += 4)
    for (int r = 0; r < rows; r += 4)
      transpose(from + r * stride + w * 4, stride, to + w * to_stride + r * 4, to_stride);
  one_by_one<4>(from + tiled * 4, stride, rows, words - tiled, to + tiled * to_stride, to_stride);
}

}  // namespace smelt
