// Loops of one operation on registers, as text that LLVM reads: what they reach is the most that a kernel could.
#pragma once

#include <optional>
#include <string>

#include "base/machine.h"

namespace smelt {

// A kernel (kernel_entry.h) with the entry "rate". Each worker runs all of it, and writes to its 64 bytes of buffer 0.
struct RateLoop {
  std::string text;
  double operations = 0;  // of one worker in one run
};

// Multiply-adds of f32, two operations each.
RateLoop multiply_add_loop(const Machine& machine);
// Sums of products of bytes, two operations a product; none where words take several instructions each.
std::optional<RateLoop> byte_dot_loop(const Machine& machine);
// The same by the matrix unit of the processor, if it has one.
std::optional<RateLoop> matrix_unit_loop(const Machine& machine);

}  // namespace smelt
