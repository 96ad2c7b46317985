// Sums of four products of bytes.
#pragma once

#include <cstdint>

#include "render/llvm.h"
#include "render/llvm_writer.h"

namespace smelt {

// sum + the sum of the four unsigned bytes of each word of x times the signed bytes of y; no byte of x is above
// `greatest` (0: not known). All three have the same lanes. `shares_y`: other sums are made of the same y.
IrValue render_dot4(LlvmWriter& out, const IrValue& sum, const IrValue& x, const IrValue& y, int64_t greatest,
                    const Machine& machine, bool shares_y = false);

}  // namespace smelt
