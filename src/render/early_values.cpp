#include "render/early_values.h"

#include <algorithm>

#include "codegen/instruction_views.h"
#include "render/addresses.h"
#include "render/llvm_ops.h"
#include "render/special_registers.h"

namespace smelt {
namespace {

bool is_index(const Instruction& x) { return x.lanes == 1 && (x.dtype == DType::I32 || x.dtype == DType::I64); }

bool is_quotient(const Instruction& x) { return x.kind == Inst::Value && (x.op == Op::Div || x.op == Op::Mod); }

}  // namespace

EarlyValues::EarlyValues(const Program& program, const std::vector<Bounds>& bounds, const Machine& machine,
                         LlvmWriter& out)
    : program_(program),
      bounds_(bounds),
      machine_(machine),
      out_(out),
      is_wanted_(program.code.size()),
      values_(program.code.size()) {
  for (const Instruction& x : program.code) {
    is_early_.push_back(can_be_early(x));
    const auto any_varies = [&] { return std::any_of(x.src.begin(), x.src.end(), [&](int s) { return varies(s); }); };
    varies_.push_back(x.kind == Inst::Value ? any_varies() : x.kind != Inst::Loop || !is_early_.back());
  }
  find_wanted();
}

std::optional<IrValue> EarlyValues::find(int position) {
  if (!is_wanted_[static_cast<size_t>(position)]) return {};
  return value(position);
}

void EarlyValues::find_all() {
  for (size_t i = 0; i < is_wanted_.size(); ++i) find(static_cast<int>(i));
}

bool EarlyValues::can_be_early(const Instruction& x) const {
  if (!is_index(x)) return false;
  if (x.kind == Inst::Part || x.kind == Inst::ThreadIndex) return true;
  if (x.kind == Inst::Loop) return has_one_round(x, bounds_);
  if (x.kind != Inst::Value || !std::all_of(x.src.begin(), x.src.end(), [&](int s) { return is_early(s); }))
    return false;
  // Where a loop leaves it out, there may be nothing to divide by.
  return !is_quotient(x) || bounds_[static_cast<size_t>(x.src[1])].min > 0;
}

bool EarlyValues::divides_by_blocks(const Instruction& x) const {
  return is_quotient(x) && !is_constant(code(x.src[1]));
}

// Those that others read which are not early, as far as it pays: a block with many tasks has better use for the
// registers. What is constant in one is added where it is used: loads of neighbours then begin with the same address.
void EarlyValues::find_wanted() {
  const bool all = awaits(program_) && program_.blocks > 0;
  const auto want = [&](int position) {
    if (!is_early(position)) return;
    const int varying = split_offset(program_, position).varying;
    if (code(varying).kind == Inst::Value && varies(varying)) is_wanted_[static_cast<size_t>(varying)] = true;
  };
  for (size_t i = 0; i < program_.code.size(); ++i) {
    const Instruction& x = program_.code[i];
    if (is_early_[i] && divides_by_blocks(x)) is_wanted_[i] = true;
    if (all && !is_early_[i]) std::for_each(x.src.begin(), x.src.end(), want);
  }
}

IrValue EarlyValues::value(int position) {
  std::optional<IrValue>& known = values_[static_cast<size_t>(position)];
  if (!known) known = computed(position);
  return *known;
}

IrValue EarlyValues::computed(int position) {
  const Instruction& x = code(position);
  if (is_constant(x)) return ir_int(x.arg.i, x.dtype);
  if (x.kind == Inst::Loop) return ir_int(0, x.dtype);
  if (x.kind != Inst::Value) return special(x);
  std::vector<IrValue> operands;
  const bool is_pinned = is_wanted_[static_cast<size_t>(position)];
  std::string key = (is_pinned ? "pinned " : "") + std::string(name_of(x.op)) + " " + ir_type(x.dtype, 1);
  for (int src : x.src) {
    operands.push_back(value(src));
    key += " " + operands.back().text;
  }
  if (const auto same = known_.find(key); same != known_.end()) return same->second;
  IrValue result = render_value(out_, x, operands, machine_, never_wraps(x, program_, bounds_));
  result.non_negative |= bounds_[static_cast<size_t>(position)].min >= 0;
  return known_[key] = is_pinned ? pinned(result) : result;
}

IrValue EarlyValues::special(const Instruction& x) {
  const std::string key =
      x.kind == Inst::Part ? "part " + std::to_string(x.arg.i) + ir_type(x.dtype, 1) : "thread " + ir_type(x.dtype, 1);
  const auto [known, is_new] = known_.try_emplace(key);
  if (is_new) known->second = special_register(out_, program_, x);
  return known->second;
}

// Behind what the optimiser cannot see through, or it would compute it where it is used.
IrValue EarlyValues::pinned(const IrValue& x) {
  const std::string type = ir_type(x.dtype, 1), registers = x.dtype == DType::I64 ? "l" : "r";
  IrValue same = out_.emit(
      x.dtype, 1, "call " + type + " asm sideeffect \"\", \"=" + registers + ",0\"(" + type + " " + x.text + ")");
  same.non_negative = x.non_negative;
  return same;
}

}  // namespace smelt
