// How a step is divided among prompts: nobody starves, and short ones do not wait for long ones.
#include "server/prompt_shares.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace smelt;

namespace {

using Counts = std::vector<int64_t>;

// Steps until the prompt `number` is read, with a new prompt of `others` tokens coming before each step.
int steps_until_read(Counts rests, size_t number, int64_t others, int64_t tokens) {
  for (int step = 1;; ++step) {
    if (others > 0) rests.push_back(others);
    const Counts shares = prompt_shares(rests, tokens);
    for (size_t i = 0; i < rests.size(); ++i) rests[i] -= shares[i];
    if (rests[number] == 0) return step;
    for (size_t i = rests.size(); i-- > 0;)
      if (rests[i] == 0) {
        rests.erase(rests.begin() + static_cast<std::ptrdiff_t>(i));
        if (i < number) --number;
      }
  }
}

}  // namespace

TEST_CASE("half of a step is for the first prompt, the rest for those with least left") {
  CHECK(prompt_shares({}, 64) == Counts{});
  CHECK(prompt_shares(Counts{1000}, 64) == Counts{64});
  CHECK(prompt_shares(Counts{10}, 64) == Counts{10});
  CHECK(prompt_shares(Counts{1000, 10}, 64) == Counts{54, 10});
  CHECK(prompt_shares(Counts{1000, 900, 10}, 64) == Counts{32, 22, 10});
  CHECK(prompt_shares(Counts{1000, 20, 20}, 64) == Counts{32, 20, 12});
  CHECK(prompt_shares(Counts{8, 1000}, 64) == Counts{8, 56});
  CHECK(prompt_shares(Counts{1000, 1000}, 1) == Counts{1, 0});
  CHECK(prompt_order(Counts{30, 10, 20, 10}) == std::vector<size_t>{1, 3, 2, 0});
}

TEST_CASE("a step is used whole as long as there is something to read") {
  for (int64_t tokens : {1, 7, 64, 512})
    for (const Counts& rests : {Counts{5}, Counts{100, 3}, Counts{3, 100}, Counts{40, 40, 40}, Counts{1, 1, 1, 1}}) {
      const Counts shares = prompt_shares(rests, tokens);
      const int64_t all = std::accumulate(rests.begin(), rests.end(), int64_t{0});
      CHECK(std::accumulate(shares.begin(), shares.end(), int64_t{0}) == std::min(tokens, all));
      for (size_t i = 0; i < rests.size(); ++i) CHECK(shares[i] <= rests[i]);
    }
}

TEST_CASE(
    "a short prompt takes at most twice its steps beside long ones, and a long one ends under a stream of short") {
  CHECK(steps_until_read({16384, 16384, 16384, 60}, 3, 0, 128) == 1);
  CHECK(steps_until_read({16384, 512}, 1, 0, 128) == 8);  // alone 4
  CHECK(steps_until_read({16384}, 0, 60, 128) <= 2 * 128);
}
