// Programs of an e-graph in words, for tests and people.
#pragma once

#include "egraph/cost.h"

namespace smelt::egraph {

// The matrix of a contraction: `gather(concat(ffn_gate_exps.weight, ffn_up_exps.weight))`, with "..." for what is no
// weight.
std::string describe_weight(const EGraph& g, ClassId w, const Choice& choice);

// The contractions and copies of a program that read weights, sources first: `contract [1, 1344] <- concat(...)`.
std::vector<std::string> describe(const EGraph& g, ClassId root, const Choice& choice);

}  // namespace smelt::egraph
