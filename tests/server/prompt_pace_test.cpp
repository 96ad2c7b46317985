#include "server/prompt_pace.h"

#include <doctest/doctest.h>

using smelt::PromptPace;

namespace {

// Seconds of a step on a machine that takes a constant for each step and each token, and more at a greater depth.
double seconds_of(int64_t tokens, int64_t depth) {
  return 10 + static_cast<double>(tokens) * (1 + static_cast<double>(depth) / 4096);
}

}  // namespace

TEST_CASE("steps far into a prompt take as long as the first one, with fewer tokens") {
  PromptPace pace(512);
  const double first = seconds_of(512, 0);
  for (int64_t depth = 0; depth < 12'000;) {
    const int64_t tokens = pace.tokens();
    CHECK(seconds_of(tokens, depth) < 1.15 * first);
    CHECK(tokens >= 128);
    pace.record(tokens, seconds_of(tokens, depth));
    depth += tokens;
  }
  CHECK(pace.tokens() < 200);
  // The next prompt begins anew.
  for (int64_t depth = 0; depth < 1000; depth += pace.tokens())
    pace.record(pace.tokens(), seconds_of(pace.tokens(), 0));
  CHECK(pace.tokens() == 512);
}

TEST_CASE("a step is never less than a quarter of a full one, and a short prompt changes nothing") {
  PromptPace pace(512);
  pace.record(512, 1);
  pace.record(20, 10);
  CHECK(pace.tokens() == 512);
  pace.record(512, 100);
  CHECK(pace.tokens() == 128);
  pace.record(128, 0.125);
  CHECK(pace.tokens() == 512);
}
