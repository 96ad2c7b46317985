// `smelt bench --grammar`: what a grammar adds to a token.
#pragma once

#include "app/bench_flags.h"

namespace smelt {

// A row for each of some usual grammars: the first text, with nothing known yet, and then the median and the 99th
// percentile of the time from one token to the next mask.
Result<int> run_grammar_bench(const BenchFlags& flags);

}  // namespace smelt
