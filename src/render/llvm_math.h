// Functions of one float argument that no instruction computes, as IR that vectorises: no library
// is called.
#pragma once

#include "render/llvm_writer.h"

namespace smelt {

// x * y + z, rounded once; F32 or F64. Without an instruction for it, it would be a call.
IrValue render_fma(LlvmWriter& out, const IrValue& x, const IrValue& y, const IrValue& z);

// F32. `fma`: there is such an instruction.
IrValue render_exp2(LlvmWriter& out, const IrValue& x, bool fma);
IrValue render_log2(LlvmWriter& out, const IrValue& x, bool fma);

// As a thread of an NVIDIA GPU has them, within 2 ulps.
IrValue exp2_of_unit(LlvmWriter& out, const IrValue& x);
IrValue quotient_of_unit(LlvmWriter& out, const IrValue& x, const IrValue& y);

// Bits of a small float to F32 and back (nearest, ties to even, NaN stays NaN).
IrValue render_bf16_to_f32(LlvmWriter& out, const IrValue& x);
IrValue render_f32_to_bf16(LlvmWriter& out, const IrValue& x);
IrValue render_f16_to_f32(LlvmWriter& out, const IrValue& x, bool in_hardware);
IrValue render_f32_to_f16(LlvmWriter& out, const IrValue& x, bool in_hardware);

// F64 to F32 such that rounding the result once more, to a small float, is as good as rounding
// once.
IrValue render_f64_to_f32_odd(LlvmWriter& out, const IrValue& x);

}  // namespace smelt
