// Tests of rules that need no test written for them.
#pragma once

#include "graph/rewrite.h"

namespace smelt {

// Whether both sides of every two-sided rule have the same value for random inputs within its condition: at random
// dtypes of its variables' domains, at their width, negatives and overflow included. Says on stderr which rule differs
// on what, and which one no input ever fits. (Right sides that are code are judged by the tests of simplify().)
bool agrees_on_random_inputs(const RuleSet& rules, int samples = 500, uint64_t seed = 1);

}  // namespace smelt
