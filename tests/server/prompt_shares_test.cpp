// How a step is divided among prompts: nobody starves, and short ones do not wait for long ones.
#include "server/prompt_shares.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace smelt;

namespace {

using Counts = std::vector<int64_t>;

struct Waited {
  int steps = 0;
  int64_t tokens = 0;  // computed in them
};

// Until the prompt `number` is read, with a new prompt of `others` tokens coming before each step.
Waited until_read(Counts rests, size_t number, int64_t others, int64_t tokens) {
  for (Waited waited;;) {
    if (others > 0) rests.push_back(others);
    const Counts shares = prompt_shares(rests, tokens);
    ++waited.steps;
    waited.tokens += std::accumulate(shares.begin(), shares.end(), int64_t{0});
    for (size_t i = 0; i < rests.size(); ++i) rests[i] -= shares[i];
    if (rests[number] == 0) return waited;
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
  CHECK(prompt_shares(Counts{1000, 1000}, 64) == Counts{32, 32});
  CHECK(prompt_shares(Counts{1000, 900, 80}, 64) == Counts{32, 0, 32});
  CHECK(prompt_shares(Counts{1000, 1000}, 1) == Counts{1, 0});
  CHECK(prompt_shares(Counts{45, 45, 45, 45}, 512) == Counts{45, 45, 45, 45});
  CHECK(prompt_shares(Counts{45, 45, 45, 45}, 128) == Counts{45, 45, 38, 0});
  CHECK(prompt_order(Counts{30, 10, 20, 10}) == std::vector<size_t>{1, 3, 2, 0});
}

TEST_CASE("a step in which a prompt comes to its end is a short one") {
  CHECK(prompt_shares(Counts{1000, 10}, 64) == Counts{10, 10});
  CHECK(prompt_shares(Counts{10, 1000}, 64) == Counts{10, 10});
  CHECK(prompt_shares(Counts{1000, 900, 10}, 64) == Counts{10, 0, 10});
  CHECK(prompt_shares(Counts{900, 1000, 10}, 64) == Counts{10, 0, 10});
  CHECK(prompt_shares(Counts{1000, 2}, 64) == Counts{4, 2});  // a sixteenth of the step
  CHECK(prompt_shares(Counts{1000, 20, 3}, 512) == Counts{32, 20, 3});
  CHECK(prompt_shares(Counts{9000, 20, 3}, 2048) == Counts{128, 20, 3});
}

TEST_CASE("a step gives no more than there is, and always something") {
  for (int64_t tokens : {1, 7, 64, 512})
    for (const Counts& rests : {Counts{5}, Counts{100, 3}, Counts{3, 100}, Counts{40, 40, 40}, Counts{1, 1, 1, 1}}) {
      const Counts shares = prompt_shares(rests, tokens);
      const int64_t given = std::accumulate(shares.begin(), shares.end(), int64_t{0});
      CHECK(given > 0);
      CHECK(given <= tokens);
      for (size_t i = 0; i < rests.size(); ++i) CHECK(shares[i] <= rests[i]);
    }
}

TEST_CASE("a short prompt takes at most twice its tokens beside long ones") {
  for (int64_t tokens : {128, 512})
    for (int64_t most : {32, 60, 200, 512, 2000})
      for (const Counts& longs : {Counts{16384}, Counts{16384, 16384, 16384}}) {
        Counts rests = longs;
        rests.push_back(most);
        const Waited waited = until_read(rests, longs.size(), 0, tokens);
        CHECK(waited.tokens <= 2 * most);
        CHECK(waited.steps <= 2 * ((most + tokens - 1) / tokens));
      }
}

TEST_CASE("a long prompt ends under a stream of short ones") {
  CHECK(until_read({16384}, 0, 60, 128).steps <= 16384 / 60 + 1);  // half of what is computed is for it
  CHECK(until_read({16384}, 0, 500, 128).steps <= 16384 / 60);
  CHECK(until_read({16384}, 0, 1, 512).steps <= 16384 / 32);
  CHECK(until_read({16384}, 0, 500, 2048).steps <= 16384 / 500 + 1);
  CHECK(until_read({16384}, 0, 1, 2048).steps <= 16384 / 128);
}
