// Sums of four products of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "render/llvm.h"
#include "render/llvm_writer.h"

namespace smelt {

// sum + the sum of the four unsigned bytes of each word of x times the signed bytes of y; no byte of x is above
// `greatest` (0: not known). All three have the same lanes. `shares_y`: other sums are made of the same y.
IrValue render_dot4(LlvmWriter& out, const IrValue& sum, const IrValue& x, const IrValue& y, int64_t greatest,
                    const Machine& machine, bool shares_y = false);

// x86 without VNNI makes numbers of 16 bits of two products each. Those of several words are added up as long as they
// fit, and one instruction makes words of their sums: half of the multiplications.
struct PairSums {
  std::vector<std::string> registers;
  int64_t count = 0;  // of what was added up
};

// How many such sums fit 16 bits, for a dot4 of so many lanes; 0 where it is not made so.
int64_t pairs_that_fit(int64_t greatest, int lanes, const Machine& machine);

// Adds those of x and y. REQUIRES: fewer are there than fit.
void add_pairs(LlvmWriter& out, PairSums& pairs, const IrValue& x, const IrValue& y, const Machine& machine);

// sum + those that were added up. REQUIRES: there are some.
IrValue add_up(LlvmWriter& out, const IrValue& sum, const PairSums& pairs, const Machine& machine);

}  // namespace smelt
