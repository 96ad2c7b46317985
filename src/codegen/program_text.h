// Programs as text, beyond print(Program) of program.h.
#pragma once

#include <string>

#include "codegen/program.h"

namespace smelt {

// One instruction without indentation: "%12 = add f32x16 %3 %4".
std::string print_instruction(const Program& program, int position);

}  // namespace smelt
