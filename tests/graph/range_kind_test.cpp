// Numbers of ranges: all different, and a graph that needs more of them than there are stops the program.
#include "graph/range_kind.h"

#include <doctest/doctest.h>

#include <set>

#include "support/last_words.h"

using namespace smelt;

TEST_CASE("axes, reductions and their parts have numbers of their own") {
  std::set<int64_t> seen;
  int64_t count = 0;
  const auto note = [&](int64_t number) {
    for (int64_t n : {number, outer_part(number), inner_part(number), inner_part(outer_part(number))}) {
      seen.insert(n);
      ++count;
      CHECK(is_range_number(n));
    }
  };
  for (int64_t axis = 0; axis < 32; ++axis) note(output_range(axis));
  for (int64_t height = 0; height < 32; ++height) note(reduce_range(height));
  CHECK(static_cast<int64_t>(seen.size()) == count);
}

TEST_CASE("one axis or one reduction more than there are numbers stops the program, before anything is miscompiled") {
  const auto says = [](const auto& f, const char* words) {
    return test::last_words(f).find(words) != std::string::npos;
  };
  CHECK(says([] { (void)output_range(32); }, "more axes than numbers for their ranges"));
  CHECK(says([] { (void)reduce_range(32); }, "more reductions in each other than numbers for their ranges"));
}
