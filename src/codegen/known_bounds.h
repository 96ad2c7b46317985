// Bounds of the integers of a program, for all workers and threads and for all symbols within theirs: how wide index
// arithmetic must be, and where it cannot wrap.
#pragma once

#include <vector>

#include "codegen/program.h"
#include "graph/bounds.h"

namespace smelt {

// By instruction: what its value, an integer or bool, lies within; none for others. The evaluator checks them.
std::vector<Bounds> known_bounds(const Program& program);

// Whether the arithmetic of an elementwise op on these operands never leaves the range of its dtype.
bool never_wraps(const Instruction& value, const Program& program, const std::vector<Bounds>& bounds);

}  // namespace smelt
