#include "engine/draft_rate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

using namespace smelt;

namespace {

// What steps of a made-up machine take and give: a second for each row and `fixed` ones; of a text's drafts the first
// `right` are.
struct Machine {
  double fixed = 0;
  int64_t right = 0;
};

// The drafts for each text that are in use in the end: most of the last steps have so many.
int64_t usual(DraftRate& rate, int64_t texts, const Machine& machine, int steps = 1600) {
  std::map<int64_t, int> times;
  for (int i = 0; i < steps; ++i) {
    const int64_t drafts = rate.next(texts);
    CHECK(texts * (1 + drafts) <= 8);
    rate.record(texts, drafts, texts * (1 + std::min(drafts, machine.right)),
                machine.fixed + static_cast<double>(texts * (1 + drafts)));
    if (i >= steps / 2) ++times[drafts];
  }
  const auto more = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::max_element(times.begin(), times.end(), more)->first;
}

}  // namespace

TEST_CASE("as many are drafted as pay, for each number of texts apart") {
  DraftRate rate(7, 8);
  CHECK(usual(rate, 1, {.fixed = 10, .right = 7}) == 7);
  CHECK(usual(rate, 2, {.fixed = 10, .right = 7}) == 3);  // eight rows
  CHECK(usual(rate, 4, {.fixed = 0.5, .right = 0}) == 0);
  CHECK(usual(rate, 1, {.fixed = 10, .right = 1}) == 1);
  CHECK(usual(rate, 1, {.fixed = 0, .right = 0}) == 0);
  CHECK(usual(rate, 1, {.fixed = 10, .right = 7}) == 7);  // and again, when they are right again
}

TEST_CASE("a step that is full has no drafts") {
  DraftRate rate(7, 8);
  for (int64_t texts : {5, 8, 9}) {
    CHECK(rate.most(texts) == 0);
    CHECK(rate.next(texts) == 0);
  }
  CHECK(rate.most(1) == 7);
  CHECK(rate.most(3) == 1);
}

TEST_CASE("who has to read the text before each try is tried so seldom that it costs little") {
  DraftRate rate(3, 8);
  double seconds = 0, without = 0;
  int64_t read = 0, tries = 0;  // tokens of the text that who drafts has read
  for (int64_t tokens = 0; tokens < 100'000;) {
    const int64_t drafts = rate.next(1), given = 1 + std::min<int64_t>(drafts, 1);
    double time = 1 + 0.9 * static_cast<double>(drafts);  // not even right drafts pay
    if (drafts > 0) {
      time += 0.5 * static_cast<double>(std::min<int64_t>(tokens - read, 500));
      read = tokens + given;
      ++tries;
    }
    rate.record(1, drafts, given, time);
    seconds += time;
    tokens += given;
    without += static_cast<double>(given);
  }
  CHECK(seconds < 1.06 * without);
  CHECK(tries > 10);
}

TEST_CASE("one step that was interrupted decides nothing") {
  DraftRate rate(1, 8);
  for (int i = 0; i < 200; ++i) {
    const int64_t drafts = rate.next(1);
    rate.record(1, drafts, 1 + drafts, i == 100 ? 1000.0 : 1.0 + 0.1 * static_cast<double>(drafts));
    if (i > 20 && i != 100) CHECK((drafts == 1 || i % 128 < 20));
  }
}
