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
  for (const Instruction& x : program.code) note(x);
  find_wanted();
}

void EarlyValues::note(const Instruction& x) {
  const int position = static_cast<int>(is_early_.size());
  is_early_.push_back(can_be_early(x));
  const auto any_varies = [&] { return std::any_of(x.src.begin(), x.src.end(), [&](int s) { return varies(s); }); };
  varies_.push_back(x.kind == Inst::Value ? any_varies() : x.kind != Inst::Loop || !is_early_.back());
  if (x.kind == Inst::Load && is_early_.back()) loops_of_load_[position] = open_;
  if (x.kind == Inst::Loop) open_.push_back(position);
  if (x.kind == Inst::EndLoop) open_.pop_back();
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
  if (x.kind == Inst::Part || x.kind == Inst::ThreadIndex || x.kind == Inst::Symbol) return true;
  if (x.kind == Inst::Loop) return has_one_round(x, bounds_);
  if (x.kind == Inst::Load) return is_given_load(x);
  if (x.kind != Inst::Value || !std::all_of(x.src.begin(), x.src.end(), [&](int s) { return is_early(s); }))
    return false;
  // Where a loop leaves it out, there may be nothing to divide by.
  return !is_quotient(x) || bounds_[static_cast<size_t>(x.src[1])].min > 0;
}

// What no launch writes, where all loops around run once or not at all, as far as is known before.
bool EarlyValues::is_given_load(const Instruction& x) const {
  const AccessView at(x);
  const auto is_known = [&](int loop) { return is_early(loop) && is_early(LoopView(code(loop)).end); };
  return code(at.pointer).kind == Inst::Buffer && !code(at.pointer).arg.list.empty() && is_early(at.offset) &&
         std::all_of(open_.begin(), open_.end(), is_known);
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
    if (all && is_early_[i] && x.kind == Inst::Load) is_wanted_[i] = true;
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
  if (x.kind == Inst::Load) return loaded(position);
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
      "special " + std::to_string(static_cast<int>(x.kind)) + " " + std::to_string(x.arg.i) + " " + ir_type(x.dtype, 1);
  const auto [known, is_new] = known_.try_emplace(key);
  if (is_new)
    known->second = x.kind == Inst::Symbol ? launch_value(out_, x.arg.i) : special_register(out_, program_, x);
  return known->second;
}

// A block that has no such task reads the first element, which is there.
IrValue EarlyValues::loaded(int position) {
  const Instruction& x = code(position);
  const AccessView at(x);
  IrValue offset = value(at.offset);
  for (int loop : loops_of_load_.at(position)) {
    const IrValue rounds = value(LoopView(code(loop)).end);
    if (rounds.integer == 1) continue;
    const std::string type = ir_type(rounds.dtype, 1), runs = out_.emit("icmp sgt " + type + " " + rounds.text + ", 0"),
                      offset_type = ir_type(offset.dtype, 1);
    offset.text = out_.emit("select i1 " + runs + ", " + offset_type + " " + offset.text + ", " + offset_type + " 0");
  }
  const std::string key =
      "load " + ir_type(x.dtype, 1) + " " + std::to_string(code(at.pointer).arg.i) + " " + offset.text;
  if (const auto same = known_.find(key); same != known_.end()) return same->second;
  const std::string address =
      out_.emit("getelementptr i8, ptr addrspace(1) %buffer." + std::to_string(code(at.pointer).arg.i) + ", " +
                ir_type(offset.dtype, 1) + " " + offset.text);
  IrValue result = out_.emit(x.dtype, 1,
                             "load " + ir_type(x.dtype, 1) + ", ptr addrspace(1) " + address + ", align " +
                                 std::to_string(size_of(x.dtype)) + ", !invariant.load !0");
  result.non_negative = bounds_[static_cast<size_t>(position)].min >= 0;
  return known_[key] = result;
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
