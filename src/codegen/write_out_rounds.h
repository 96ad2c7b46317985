// Rounds of a product whose reads are staged (stage_reads.h), written out one behind the other where they are few.
//
//   loop 0 .. 4                      copy_wait, barrier, copy of round 2, sums of round 0 from slot 0
//     copy_wait, barrier             copy_wait, barrier, copy of round 3, sums of round 1 from slot 1
//     copy of round i + 2      ->    copy_wait, barrier,                  sums of round 2 from slot 2
//     sums of round i                copy_wait, barrier,                  sums of round 3 from slot 0
//
// In a loop, where a copy begins and whether there is such a round costs as many instructions as a third of a round's
// products. Written out, places differ by constants, and no copies are left for rounds that there are not.
#pragma once

#include "codegen/program.h"

namespace smelt {

// Behind linearize(), whose barriers stay where they are. Rounds that a mask drops as a whole are under its condition.
void write_out_rounds(Program& program);

}  // namespace smelt
