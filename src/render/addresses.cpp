#include "render/addresses.h"

#include <algorithm>

#include "codegen/instruction_views.h"

namespace smelt {

SplitOffset split_offset(const Program& program, int offset) {
  SplitOffset at{.varying = offset};
  while (true) {
    const Instruction& sum = program.code[static_cast<size_t>(at.varying)];
    if (sum.kind != Inst::Value || sum.op != Op::Add) return at;
    const auto operand = [&](size_t i) -> const Instruction& { return program.code[static_cast<size_t>(sum.src[i])]; };
    const size_t which = is_constant(operand(1)) ? 1 : 0;
    if (!is_constant(operand(which))) return at;
    at.constant += operand(which).arg.i;
    at.varying = sum.src[1 - which];
  }
}

int64_t alignment_of(const Program& program, const Instruction& access, const std::vector<int64_t>& multiples) {
  const AccessView at(access);
  const Instruction& pointer = program.code[static_cast<size_t>(at.pointer)];
  const bool is_inside = pointer.kind == Inst::Scratch && pointer.arg.i != 0;
  return std::min({kBufferAlign, is_inside ? pointer.arg.i & -pointer.arg.i : kBufferAlign,
                   multiples[static_cast<size_t>(at.offset)]});
}

}  // namespace smelt
