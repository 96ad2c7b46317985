// With how many workers a plan runs: what its runs say.
#include "runtime/cpu/worker_choice.h"

#include <doctest/doctest.h>

#include <array>
#include <functional>

using namespace smelt;

namespace {

using Cost = std::function<int64_t(int workers)>;

constexpr std::array<int64_t, 2> kSymbols = {1, 4};

// After so many runs.
int choice_after(int runs, WorkerChoice& choice, const Cost& cost) {
  for (int i = 0; i < runs; ++i) choice.took(cost(choice.workers()), kSymbols);
  return choice.workers();
}

int choice_of(int most, const Cost& cost) {
  WorkerChoice choice(most);
  return choice_after(200, choice, cost);
}

// What is shared, and what each worker costs, in microseconds.
Cost divided(int64_t work, int64_t each) {
  return [=](int workers) { return 1000 * (work / workers + each * workers); };
}

}  // namespace

TEST_CASE("a plan runs with as many workers as are fastest") {
  CHECK(choice_of(16, divided(1600, 1)) == 16);
  CHECK(choice_of(16, divided(1600, 20)) == 8);
  CHECK(choice_of(16, divided(160, 10)) == 4);
  CHECK(choice_of(16, divided(10, 10)) == 1);
  CHECK(choice_of(12, divided(120, 10)) == 3);
  CHECK(choice_of(2, divided(10, 100)) == 1);
  CHECK(choice_of(1, divided(10, 100)) == 1);
}

TEST_CASE("a little faster is not enough, and outliers do not count") {
  CHECK(choice_of(16, [](int workers) { return int64_t{97000 + 1000 * (workers / 8)}; }) == 16);
  int64_t runs = 0;
  CHECK(choice_of(16, [&](int workers) { return divided(1600, 20)(workers) * (++runs % 3 == 0 ? 50 : 1); }) == 8);
}

TEST_CASE("long runs are not tried with fewer workers") {
  WorkerChoice choice(16);
  for (int i = 0; i < 200; ++i) {
    CHECK(choice.workers() == 16);
    choice.took(WorkerChoice::kLongestRun + 1, kSymbols);
  }
}

TEST_CASE("runs with other work are not compared") {
  WorkerChoice choice(16);
  for (int64_t i = 0; i < 500; ++i) {
    CHECK(choice.workers() == 16);
    choice.took(1000 * (500 - i), std::array{i / WorkerChoice::kRuns});
  }
}

TEST_CASE("what is best for little work is not taken for much") {
  WorkerChoices choices(16);
  const std::array<int64_t, 2> little = {1, 4}, much = {64, 4}, about_as_much = {100, 5};
  for (int i = 0; i < 200; ++i) choices.took(divided(10, 10)(choices.workers(little)), little);
  CHECK(choices.workers(little) == 1);
  CHECK(choices.workers(much) == 16);
  for (int i = 0; i < 200; ++i) choices.took(divided(1600, 20)(choices.workers(much)), much);
  CHECK(choices.workers(much) == 8);
  CHECK(choices.workers(about_as_much) == 8);
  CHECK(choices.workers(little) == 1);
}

TEST_CASE("after many runs it looks again") {
  WorkerChoice choice(16);
  CHECK(choice_after(200, choice, divided(1600, 20)) == 8);
  CHECK(choice_after(200, choice, divided(1600, 1)) == 8);
  CHECK(choice_after(WorkerChoice::kRunsUntilAgain + 200, choice, divided(1600, 1)) == 16);
}
