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

// Word w of row r becomes word w * rows + r.
Bytes by_definition(int word, const std::byte* from, int64_t stride, int rows, int words) {
  Bytes to;
  for (int w = 0; w < words; ++w)
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < word; ++i) to.push_back(from[r * stride + w * word + i]);
  return to;
}

}  // namespace

TEST_CASE("words of rows alternate, whatever their size and number, at any address") {
  const Bytes source = random_bytes(20000);
  for (int word : {1, 2, 4})
    for (int rows : {1, 2, 3, 4, 8, 16})
      for (int words : {1, 2, 3, 4, 5, 7, 16, 33})
        for (int shift : {0, 1, 2}) {
          const int64_t stride = words * word + 18;
          Bytes to(static_cast<size_t>(words * rows * word) + 8, std::byte{0x5a});
          interleave_words(word, source.data() + shift, stride, rows, words, to.data());
          const Bytes behind(to.end() - 8, to.end());
          to.resize(to.size() - 8);
          CAPTURE(word);
          CAPTURE(rows);
          CAPTURE(words);
          CHECK(to == by_definition(word, source.data() + shift, stride, rows, words));
          CHECK(behind == Bytes(8, std::byte{0x5a}));
        }
}
