// `smelt run --benchmark`: the speed of decoding, without a prompt and without text.
#pragma once

#include "app/engine_flags.h"

namespace smelt {

// Times `tokens` decode steps and prints load, compile and decode figures to stdout. Returns the exit code.
Result<int> run_benchmark(const EngineFlags& flags, int tokens);

}  // namespace smelt
