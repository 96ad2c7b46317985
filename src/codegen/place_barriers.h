// Where the threads of a block wait for each other.
//
// A barrier stands before an instruction that reads on-chip memory which threads have written since the last one, or
// writes what they have read; if that is so when a loop begins, before the loop. Memory is told apart by where it
// begins (the Scratch that a pointer is), and two writes meet only in different nests: inside of one, each element is
// written once. So a thread that updates its own elements waits for nobody.
#pragma once

#include "codegen/program.h"

namespace smelt {

// Barriers of the program as it comes mark where nests begin; they are replaced by those that are needed.
void place_barriers(Program& program);

}  // namespace smelt
