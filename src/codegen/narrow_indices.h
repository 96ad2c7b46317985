// Index arithmetic as narrow as its bounds allow: i64 values whose operands and results fit 32 bits become i32, and are
// widened once, where they meet a value that does not fit. Loads and stores take offsets of either width.
//
//   %7 = mul i64 %5 %6        %7 = mul i32 %5 %6
//   %9 = add i64 %7 %8    ->  %8 = cast i64 %7           %8 is an expert's first byte, beyond 4 GB
//                             %10 = add i64 %8 %9
//
// A thread of a GPU multiplies 64 bits in four instructions and keeps them in two registers: there all indices become
// narrow. On a CPU scalars cost the same in either width, and only vectors do.
#pragma once

#include "base/machine.h"
#include "codegen/program.h"

namespace smelt {

void narrow_indices(Program& program, const Machine& machine);

}  // namespace smelt
