// What each elementwise op is in LLVM IR. Meanings are those of graph/scalar_math.h.
#pragma once

#include <span>

#include "codegen/program.h"
#include "render/llvm.h"
#include "render/llvm_writer.h"

namespace smelt {

// The value of a Value instruction whose operands are written as `operands` (scalars not yet
// repeated). `is_exact`: it is known not to wrap.
IrValue render_value(LlvmWriter& out, const Instruction& instruction, std::span<const IrValue> operands,
                     const Machine& machine, bool is_exact = false);

IrValue render_cast(LlvmWriter& out, const IrValue& x, DType dtype, const Machine& machine);

// All lanes in one: halves are combined until one lane is left; odd lanes at the end of a round are
// combined last.
IrValue render_lane_reduce(LlvmWriter& out, Op op, const IrValue& x, const Machine& machine);

}  // namespace smelt
