#include "render/block_shares.h"

#include <algorithm>

#include "codegen/instruction_views.h"
#include "render/llvm_ops.h"

namespace smelt {
namespace {

bool is_index(const Instruction& x) { return x.lanes == 1 && (x.dtype == DType::I32 || x.dtype == DType::I64); }

}  // namespace

BlockShares::BlockShares(const Program& program, const std::vector<Bounds>& bounds, const Machine& machine,
                         LlvmWriter& out)
    : program_(program), bounds_(bounds), machine_(machine), out_(out) {
  for (const Instruction& x : program.code) is_of_block_.push_back(is_of_block(x));
}

std::optional<IrValue> BlockShares::find(int position) {
  if (!divides_by_blocks(position)) return {};
  return value(position);
}

void BlockShares::find_all() {
  for (size_t i = 0; i < is_of_block_.size(); ++i) find(static_cast<int>(i));
}

bool BlockShares::is_of_block(const Instruction& x) const {
  if (!is_index(x)) return false;
  return x.kind == Inst::Part || (x.kind == Inst::Value && std::all_of(x.src.begin(), x.src.end(), [&](int src) {
                                    return is_of_block_[static_cast<size_t>(src)];
                                  }));
}

bool BlockShares::divides_by_blocks(int position) const {
  const Instruction& x = program_.code[static_cast<size_t>(position)];
  return is_of_block_[static_cast<size_t>(position)] && x.kind == Inst::Value && (x.op == Op::Div || x.op == Op::Mod) &&
         !is_constant(program_.code[static_cast<size_t>(x.src[1])]);
}

IrValue BlockShares::value(int position) {
  const Instruction& x = program_.code[static_cast<size_t>(position)];
  if (is_constant(x)) return ir_int(x.arg.i, x.dtype);
  if (x.kind == Inst::Part) return part(x);
  std::vector<IrValue> operands;
  std::string key = std::string(name_of(x.op)) + " " + ir_type(x.dtype, 1);
  for (int src : x.src) {
    operands.push_back(value(src));
    key += " " + operands.back().text;
  }
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  IrValue result = render_value(out_, x, operands, machine_);
  result.non_negative |= bounds_[static_cast<size_t>(position)].min >= 0;
  return known_[key] = divides_by_blocks(position) ? pinned(result) : result;
}

IrValue BlockShares::part(const Instruction& x) {
  const std::string function =
      std::string("@llvm.nvvm.read.ptx.sreg.") + (part_value(x) == PartValue::Index ? "ctaid.x" : "nctaid.x");
  out_.declare("declare i32 " + function + "()");
  const auto [known, is_new] = known_.try_emplace(function + ir_type(x.dtype, 1));
  if (!is_new) return known->second;
  const IrValue number = out_.emit(DType::I32, 1, "call i32 " + function + "()");
  known->second = x.dtype == DType::I32 ? number : out_.emit(x.dtype, 1, "zext i32 " + number.text + " to i64");
  known->second.non_negative = true;
  return known->second;
}

// Behind what the optimiser cannot see through, or it would compute each quotient where it is used.
IrValue BlockShares::pinned(const IrValue& x) {
  const std::string type = ir_type(x.dtype, 1), registers = x.dtype == DType::I64 ? "l" : "r";
  IrValue same = out_.emit(
      x.dtype, 1, "call " + type + " asm sideeffect \"\", \"=" + registers + ",0\"(" + type + " " + x.text + ")");
  same.non_negative = x.non_negative;
  return same;
}

}  // namespace smelt
