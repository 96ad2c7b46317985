#include "render/warp_reductions.h"

#include <algorithm>

#include "codegen/instruction_views.h"
#include "codegen/program_verify.h"

namespace smelt {
namespace {

// Whether it is max(x, -x), or a maximum with such a value.
bool has_no_sign(const Program& program, int position) {
  const Instruction& x = program.code[static_cast<size_t>(position)];
  if (x.kind != Inst::Value || x.op != Op::Max) return false;
  const auto is_negative_of = [&](int a, int b) {
    const Instruction& y = program.code[static_cast<size_t>(a)];
    return y.kind == Inst::Value && y.op == Op::Neg && only_operand(y) == b;
  };
  return is_negative_of(x.src[0], x.src[1]) || is_negative_of(x.src[1], x.src[0]) ||
         std::any_of(x.src.begin(), x.src.end(), [&](int s) { return has_no_sign(program, s); });
}

bool is_one_instruction(const Program& program, const SimdReduction& reduction) {
  const DType dtype = program.code[static_cast<size_t>(reduction.value)].dtype;
  if (dtype == DType::F32) return reduction.op == Op::ReduceMax && has_no_sign(program, reduction.value);
  return dtype == DType::I32;
}

}  // namespace

WarpReductions::WarpReductions(const Program& program) : results_(program.code.size()), is_step_(program.code.size()) {
  if (!awaits(program)) return;
  const SimdReductions all = simd_reductions(program);
  for (size_t i = 0; i < program.code.size(); ++i)
    if (all.results[i].value >= 0 && is_one_instruction(program, all.results[i])) {
      results_[i] = all.results[i];
      for (int step : all.steps_of(program, static_cast<int>(i))) is_step_[static_cast<size_t>(step)] = true;
    }
}

const WarpReduction* WarpReductions::find(int position) const {
  const WarpReduction& result = results_[static_cast<size_t>(position)];
  return result.value >= 0 ? &result : nullptr;
}

}  // namespace smelt
