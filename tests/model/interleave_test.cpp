// The transposition behind interleaved weights against its definition.
#include "model/interleave.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace smelt;

namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t count) {
  std::mt19937 random(7);
  Bytes bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

constexpr std::byte kUntouched{0x5a};

// Word w of row r becomes word r of those at w * to_stride.
Bytes by_definition(int word, const std::byte* from, int64_t stride, int rows, int words, int64_t to_stride) {
  Bytes to(words * to_stride, kUntouched);
  for (int w = 0; w < words; ++w)
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < word; ++i) to[w * to_stride + r * word + i] = from[r * stride + w * word + i];
  return to;
}

}  // namespace

TEST_CASE("words of rows alternate, whatever their size and number, at any address") {
  const Bytes source = random_bytes(20000);
  for (int word : {1, 2, 4})
    for (int rows : {1, 2, 3, 4, 8, 16})
      for (int words : {1, 2, 3, 4, 5, 7, 16, 33})
        for (int shift : {0, 1, 2})
          for (int between : {0, 8}) {
            const int64_t stride = words * word + 18, to_stride = rows * word + between;
            Bytes to(static_cast<size_t>(words * to_stride), kUntouched);
            interleave_words(word, source.data() + shift, stride, rows, words, to.data(), to_stride);
            CAPTURE(word);
            CAPTURE(rows);
            CAPTURE(words);
            CHECK(to == by_definition(word, source.data() + shift, stride, rows, words, to_stride));
          }
}
