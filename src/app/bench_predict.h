// `smelt bench --predict`: how fast models should be on machines that need not be here.
#pragma once

#include "app/bench_flags.h"

namespace smelt {

// A row for each model, machine and test, by estimates of every kernel (profile_estimate.h); below them what others
// reached there with such a model. Nothing runs, and no weight is read.
Result<int> run_predictions(const BenchFlags& flags);

}  // namespace smelt
