// Runs a Program one instruction at a time, without LLVM: the judge of rendered code, and the
// finder of addressing bugs (every byte a program touches is checked against the size of its
// buffer).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "codegen/program.h"

namespace smelt {

using ByteSpan = std::span<std::byte>;

struct EvalOptions {
  bool round_f32 = false;  // false: F32 arithmetic is done in double; memory holds floats either way
  // Told of each store to a buffer: its number, where in it, and how many bytes.
  std::function<void(int64_t, int64_t, int64_t)> stored = {};
};

// As worker `part` of `parts`. Buffers in the order of the program's arguments, symbols in that of
// `program.symbols`. The error names the instruction: an offset outside its buffer or scratch,
// scratch read before it was written, or a stored value, address or loop bound that an undefined
// operation made (division by zero, shift by the width, ...). Of a block of threads also: two that
// meet at a byte which one of them writes, with no barrier between, and loops that differ among
// them. REQUIRES: problem_of(program) is empty.
Status evaluate(const Program& program, std::span<const ByteSpan> buffers, std::span<const int64_t> symbols,
                int64_t part, int64_t parts, const EvalOptions& options = {});

}  // namespace smelt
