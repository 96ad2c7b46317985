// `smelt bench`: the speed of prompts and of decoding, in the manner of llama-bench.
#pragma once

#include "app/bench_flags.h"

namespace smelt {

// Measures and prints to stdout; progress goes to stderr. Returns the exit code.
Result<int> run_bench(const BenchFlags& flags);

}  // namespace smelt
