// The parts of verify(): each says in words what is wrong with one node, or nothing. Private to
// verify*.cpp.
#pragma once

#include <string>

#include "graph/node.h"
#include "graph/verify.h"

namespace smelt {

// Dtypes of a node and its sources; the same in every phase. Memory, movement and roots are not
// asked.
std::string typing_problem(Ref node);

// Shapes, arguments and sources of a node in a tensor graph. REQUIRES: no typing_problem.
std::string tensor_problem(Ref node);

// The same in a kernel. REQUIRES: no typing_problem.
std::string kernel_problem(Ref node, Phase phase);

}  // namespace smelt
