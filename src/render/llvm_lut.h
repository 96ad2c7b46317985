// Look-ups in constant tables.
#pragma once

#include <cstdint>
#include <span>

#include "render/llvm.h"
#include "render/llvm_writer.h"

namespace smelt {

// table[index] as dtype. Up to 16 small entries are one byte shuffle where the target has one, words a gather;
// others are loads.
IrValue render_lut(LlvmWriter& out, std::span<const int64_t> table, const IrValue& index, DType dtype,
                   const Machine& machine);

// Each byte of the words x replaced by table[byte].
IrValue render_lut4(LlvmWriter& out, std::span<const int64_t> table, const IrValue& x, const Machine& machine);

}  // namespace smelt
