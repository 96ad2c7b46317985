// Extraction: the program of an e-graph that moves the fewest bytes (cost.h).
#pragma once

#include "egraph/cost.h"

namespace smelt::egraph {

struct Extraction {
  Choice choice;
  Cost cost;
};

// Local search from the first program, so never worse than it: a class gets another node, or all classes that could
// read some class do, then pairs of such moves, until none helps. Classes in `fixed` keep their node.
Extraction extract(const EGraph& g, ClassId root, const CostModel& model, const Choice& fixed = {});

}  // namespace smelt::egraph
