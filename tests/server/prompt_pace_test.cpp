#include "server/prompt_pace.h"

#include <doctest/doctest.h>

#include <vector>

using smelt::PromptPace;

namespace {

constexpr double kSlack = 1.2;  // what steps of one size may differ by, and what the next one is deeper

// A machine that takes a time for each step and for each token, and twice as much for it at some depth.
struct Timing {
  double step = 0, token = 0, twice_at = 0;
  double of(int64_t tokens, int64_t depth) const {
    return step + static_cast<double>(tokens) * token * (1 + static_cast<double>(depth) / twice_at);
  }
};

constexpr Timing kProcessor{.step = 0.5, .token = 8e-3, .twice_at = 4096},
    kGpu{.step = 8e-3, .token = 35e-6, .twice_at = 12'000}, kFast{.step = 1e-3, .token = 600e-6, .twice_at = 12'000};

// How many tokens each step has of a prompt of so many.
std::vector<int64_t> read(PromptPace& pace, const Timing& timing, int64_t prompt) {
  std::vector<int64_t> steps;
  for (int64_t depth = 0; depth < prompt; depth += steps.back()) {
    steps.push_back(std::min(pace.tokens(), prompt - depth));
    pace.record(steps.back(), timing.of(steps.back(), depth));
  }
  return steps;
}

}  // namespace

TEST_CASE("a step has a whole chunk where the machine reads one in the time there is") {
  PromptPace pace({.seconds = 0.5, .usual = 512, .most = 2048, .tile = 64});
  CHECK(read(pace, kGpu, 512 + 2048) == std::vector<int64_t>{512, 2048});
  CHECK(read(pace, kGpu, 2048) == std::vector<int64_t>{2048});
  CHECK(read(pace, kGpu, 600) == std::vector<int64_t>{600});
  CHECK(read(pace, kGpu, 2048) == std::vector<int64_t>{2048});
}

TEST_CASE("a step has as many tokens as the time there is allows") {
  PromptPace pace({.seconds = 0.5, .usual = 512, .most = 2048});
  read(pace, kFast, 4096);
  int64_t depth = 0;
  for (int step = 0; step < 10; ++step) pace.record(pace.tokens(), kFast.of(pace.tokens(), 0));  // short prompts
  CHECK(pace.tokens() > 800);
  for (int64_t tokens : read(pace, kFast, 12'000)) {
    CHECK(kFast.of(tokens, depth) < kSlack * 0.5);
    depth += tokens;
  }
}

TEST_CASE("on a slow machine a step is of the usual tokens, whatever they take") {
  PromptPace pace({.seconds = 0.5, .usual = 512, .most = 2048});
  CHECK(read(pace, kProcessor, 1024 + 100) == std::vector<int64_t>{512, 512, 100});
  PromptPace beside({.seconds = 0.03, .usual = 128, .least = 128, .most = 2048});
  for (int64_t tokens : read(beside, kProcessor, 128 * 100)) CHECK(tokens == 128);
}

TEST_CASE("steps far into a prompt take as long as the first one, with fewer tokens") {
  for (const auto& [timing, most] : {std::pair(kProcessor, 512), {kGpu, 512}, {kProcessor, 2048}, {kGpu, 2048}}) {
    CAPTURE(timing.step);
    CAPTURE(most);
    const int64_t full = timing.step > 0.1 ? 512 : most;
    PromptPace pace({.seconds = 0.5, .usual = 512, .most = most});
    read(pace, timing, 2560);
    read(pace, timing, 2560);
    const double first = timing.of(full, 0);
    int64_t depth = 0;
    for (int64_t tokens : read(pace, timing, 12'000)) {
      CHECK(timing.of(tokens, depth) < kSlack * first);
      if (depth + tokens < 12'000) CHECK(tokens >= 128);
      depth += tokens;
    }
    CHECK(pace.tokens() < 3 * full / 4);
    for (int prompt = 0; prompt < 8; ++prompt) read(pace, timing, full);  // others begin anew
    CHECK(read(pace, timing, full) == std::vector<int64_t>{full});
  }
}

TEST_CASE("beside others a step grows to the time that they may wait, and no further") {
  PromptPace pace({.seconds = 0.030, .usual = 128, .least = 128, .most = 2048, .tile = 64});
  for (const double generating : {3e-3, 14e-3, 60e-3}) {
    const Timing timing{.step = 5e-3 + generating, .token = 40e-6, .twice_at = 12'000};
    read(pace, timing, 8192);
    for (int step = 0; step < 10; ++step) pace.record(pace.tokens(), timing.of(pace.tokens(), 0));
    const double seconds = timing.of(pace.tokens(), 0);
    if (generating < 0.015) CHECK(seconds > 0.024);
    if (generating < 0.015) CHECK(seconds < kSlack * 0.030);
    if (generating > 0.030) CHECK(pace.tokens() == 128);
  }
}

TEST_CASE("a step is never less than the least, and a short prompt changes nothing") {
  PromptPace pace({.usual = 512});
  pace.record(512, 1);
  pace.record(20, 10);
  CHECK(pace.tokens() == 512);
  pace.record(512, 100);
  CHECK(pace.tokens() == 128);
  pace.record(128, 0.125);
  CHECK(pace.tokens() == 512);
}
