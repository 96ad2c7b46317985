// Bounds of the integers of a program, for all workers and threads and for all symbols within theirs: how wide index
// arithmetic must be, and where it cannot wrap.
#pragma once

#include <vector>

#include "codegen/program.h"
#include "graph/bounds.h"

namespace smelt {

// By instruction: what its value, an integer or bool, lies within; none for others. The evaluator checks them.
// `has_its_blocks`: as a device launches it, with Program::blocks if that says how many.
std::vector<Bounds> known_bounds(const Program& program, bool has_its_blocks = false);

// Of a loop: whether it has one round at most, number 0.
bool has_one_round(const Instruction& loop, const std::vector<Bounds>& bounds);

// Whether the arithmetic of an elementwise op on these operands never leaves the range of its dtype.
bool never_wraps(const Instruction& value, const Program& program, const std::vector<Bounds>& bounds);

}  // namespace smelt
