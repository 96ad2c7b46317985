// `smelt bench --parallel`: what sequences that generate side by side gain from each other.
#pragma once

#include "app/bench_flags.h"

namespace smelt {

constexpr int64_t kMostParallel = 64;

// For each model and configuration a row for each number of sequences.
Result<int> run_parallel_bench(const BenchFlags& flags);

}  // namespace smelt
