// What a thread loads while the launch before still runs.
//
// A launch waits for those before it (Inst::Await), and only then begins to load. But weights and what the host has
// written are there already, and norms' weights, biases and positions are wanted by chains that a kernel waits for: a
// weight comes from memory, as a token reads gigabytes between two visits to it. Where such a load and its address
// depend on nothing else, and every block may execute it, it goes in front of the wait:
//
//   await                                      %7 = load f32 %weights %6
//   %9 = load f32 %hidden %6              ->   await
//   ...                                        %9 = load f32 %hidden %6
//   %80 = load f32 %weights %6                 ...
//
// As many as a thread has registers to spare for.
#pragma once

#include "codegen/program.h"

namespace smelt {

// A program that does not wait stays as it is.
void load_early(Program& program);

}  // namespace smelt
