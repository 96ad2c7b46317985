// Tests of rules that need no test written for them.
#pragma once

#include "graph/rewrite.h"

namespace smelt {

// Whether both sides of every two-sided rule have the same value for random inputs within its
// condition: at random dtypes of its variables' domains, at their width, negatives and overflow
// included. The answer names, one a line, the rules that differ and on what, and those that no
// input ever fits; it is empty when all agree. (Right sides that are code are judged by the tests
// of simplify().)
std::string disagreement_on_random_inputs(const RuleSet& rules, int samples = 500, uint64_t seed = 1);

// The same as a yes or no; what disagrees goes to stderr.
bool agrees_on_random_inputs(const RuleSet& rules, int samples = 500, uint64_t seed = 1);

}  // namespace smelt
