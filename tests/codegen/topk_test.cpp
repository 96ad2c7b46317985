// What a top-k chooses are indices of its row, whatever is in it: experts are loaded by them.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

TEST_CASE("a row of what is no number, or of infinities, has indices inside of it") {
  constexpr int64_t kRows = 2, kColumns = 8, kChosen = 3;
  JudgedKernel kernel = kernel_of(sink({output(1, top_k(input(0, {kRows, kColumns}), kChosen))}));
  REQUIRE(kernel.buffers.size() == 2);
  for (const float x : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity()}) {
    REQUIRE(kernel.buffers[1].size() == kRows * kColumns * sizeof x);
    for (size_t at = 0; at < kernel.buffers[1].size(); at += sizeof x)
      std::memcpy(kernel.buffers[1].data() + at, &x, sizeof x);
    const Bytes chosen = bits_with(kernel, {})[0];
    REQUIRE(chosen.size() == kRows * kChosen * sizeof(int32_t));
    for (size_t at = 0; at < chosen.size(); at += sizeof(int32_t)) {
      int32_t index;
      std::memcpy(&index, chosen.data() + at, sizeof index);
      CHECK(index >= 0);
      CHECK(index < kColumns);
    }
  }
}
