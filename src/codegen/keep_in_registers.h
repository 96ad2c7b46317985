// What a thread has stored on chip and reads again stays in its registers.
//
// Nests of a kernel pass values to each other through on-chip memory, behind barriers, as in general other threads read
// them. But where a nest shares out its elements as the one before did, each thread reads what it has stored itself:
//
//   store f32 %local %9 %8                  store f32 %local %9 %8     gone, if nobody else reads it
//   barrier                            ->
//   %20 = load f32 %local %19               uses of %20 take %8
//
// Offsets are compared thread by thread, so it does not matter how they are written. Loops that follow each other under
// the same condition become one before, as no value leaves its loop.
#pragma once

#include "codegen/program.h"

namespace smelt {

// REQUIRES: barriers mark where nests begin, as for place_barriers(). Of threads that share an element, of which one
// stores it, all have its value.
void keep_in_registers(Program& program);

}  // namespace smelt
