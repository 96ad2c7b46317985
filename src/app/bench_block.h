// `smelt bench --block`: what the parts of one transformer block take, in decoding and in prompts.
#pragma once

#include <vector>

#include "app/bench_contest.h"

namespace smelt {

// Measures and prints to stdout; progress goes to stderr. Returns the exit code.
//
// Whole models run, with a clock between launches: blocks take turns, so that the weights of one come from memory and
// not from a cache. Where all weights of a token would stay in the caches, these are emptied before each run.
Result<int> run_block_bench(const BenchFlags& flags, const std::vector<Contest>& contests);

}  // namespace smelt
