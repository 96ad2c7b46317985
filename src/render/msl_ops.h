// What each elementwise op is in the Metal Shading Language. Meanings are those of graph/scalar_math.h.
#pragma once

#include <optional>
#include <span>

#include "codegen/program.h"
#include "render/msl_text.h"

namespace smelt {

// An operand of an op, and what is known of it.
struct MslOperand {
  MslExpr expr;
  DType dtype = DType::Void;
  bool is_non_negative = false;          // of integers
  std::optional<int64_t> constant = {};  // the value of a constant integer
};

// The value of a Value instruction. `is_exact`: it is known not to wrap.
MslExpr render_msl_value(const Instruction& x, std::span<const MslOperand> operands, bool is_exact,
                         MslPreamble& preamble);

// x as another dtype.
MslExpr render_msl_cast(const MslOperand& x, DType dtype, MslPreamble& preamble);

}  // namespace smelt
