// The legal form of a Program, checked before it is evaluated or rendered.
#pragma once

#include <string>

#include "codegen/program.h"

namespace smelt {

// The first thing that is wrong, with the instruction's text; empty if all is well. Checked are:
// operands exist, are earlier and in scope (a value made inside a loop is not used after it), have
// the dtypes and lanes that the instruction wants; loops nest; arguments and scratch offsets are
// within what the program declares.
std::string problem_of(const Program& program);

}  // namespace smelt
