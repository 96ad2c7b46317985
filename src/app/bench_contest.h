// What a benchmark is to measure, worked out from its flags: configurations, alone or in pairs, and tests.
#pragma once

#include <vector>

#include "app/bench_flags.h"

namespace smelt {

// One or, with --vs, two configurations that take turns on the same tests.
struct Contest {
  std::vector<BenchConfig> configs;
  std::vector<BenchTest> tests;
  bool reloads = false;  // each configuration is loaded anew for its turns
};

// An Error says what is wrong with the flags.
Result<std::vector<Contest>> contests_of(const BenchFlags& flags);

// Whether the weights of both sides are in memory at the same time, or may be as far as one can tell before they are.
bool fit_together(const Contest& contest);

}  // namespace smelt
