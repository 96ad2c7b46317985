// What `smelt tune` prints at the end: kernel by kernel what was gained, and what that should do to a token.
#pragma once

#include <string>
#include <vector>

#include "engine/tune.h"

namespace smelt {

// A kernel of a plan, and how much of the plan's time it takes.
struct TuneJob {
  std::string plan;   // "decode", "prefill"
  std::string stage;  // "experts"
  std::string what;   // it computes, in words
  std::string name;
  int kernel = 0;            // Session::kernel()
  int calls = 0;             // of one replay of the plan
  double seconds = 0;        // of all of them
  double share = 0;          // of the plan
  double floor_seconds = 0;  // that memory alone takes, of all calls
  std::string options;
};

struct TunedJob {
  TuneJob job;
  TuneOutcome outcome;
  std::string problem;  // why it was not tuned; else empty
};

// One replay of a plan.
struct TunePlan {
  std::string name;
  int64_t tokens = 1;
  double seconds = 0;
};

std::string tune_plan_text(const std::vector<TunePlan>& plans, const std::vector<TuneJob>& jobs);
std::string tune_report(const std::vector<TunePlan>& plans, const std::vector<TunedJob>& jobs);

}  // namespace smelt
