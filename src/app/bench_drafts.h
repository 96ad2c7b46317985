// `smelt bench --mtp`, `--lookup`, `--model-draft`: what drafts gain on texts that a model writes.
#pragma once

#include "app/bench_flags.h"

namespace smelt {

// For each model and configuration a row for each length of drafts, and one for as many as pay.
Result<int> run_draft_bench(const BenchFlags& flags);

}  // namespace smelt
