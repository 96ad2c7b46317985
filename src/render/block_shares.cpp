#include "render/block_shares.h"

#include <algorithm>

#include "codegen/instruction_views.h"

namespace smelt {
namespace {

// As LLVM has them for numbers with a sign. None: not computed here.
const char* name_of_op(Op op) {
  switch (op) {
    case Op::Add: return "add";
    case Op::Sub: return "sub";
    case Op::Mul: return "mul";
    case Op::Max: return "smax";
    case Op::Div: return "sdiv";
    case Op::Mod: return "srem";
    default: return nullptr;
  }
}

bool divides(Op op) { return op == Op::Div || op == Op::Mod; }

bool is_index(const Instruction& x) { return x.lanes == 1 && (x.dtype == DType::I32 || x.dtype == DType::I64); }

}  // namespace

BlockShares::BlockShares(const Program& program, const std::vector<Bounds>& bounds, LlvmWriter& out)
    : program_(program), bounds_(bounds), out_(out) {
  for (const Instruction& x : program.code) is_of_block_.push_back(is_of_block(x));
}

std::optional<IrValue> BlockShares::find(int position) {
  const auto at = static_cast<size_t>(position);
  const Instruction& x = program_.code[at];
  if (!is_of_block_[at] || x.kind != Inst::Value || !divides(x.op)) return {};
  if (is_constant(program_.code[static_cast<size_t>(x.src[1])])) return {};
  // Behind what the optimiser cannot see through, or it would compute each quotient where it is used.
  const std::string type = ir_type(x.dtype, 1), kind = x.dtype == DType::I64 ? "l" : "r", share = text_of(position);
  const std::string pinned =
      once("call " + type + " asm sideeffect \"\", \"=" + kind + ",0\"(" + type + " " + share + ")");
  return IrValue{.text = pinned, .dtype = x.dtype, .lanes = 1, .non_negative = bounds_[at].min >= 0};
}

void BlockShares::find_all() {
  for (size_t i = 0; i < is_of_block_.size(); ++i) find(static_cast<int>(i));
}

bool BlockShares::is_of_block(const Instruction& x) const {
  if (!is_index(x)) return false;
  if (x.kind == Inst::Part) return true;
  const bool is_known = x.op == Op::Const || x.op == Op::Cast || name_of_op(x.op);
  return x.kind == Inst::Value && is_known &&
         std::all_of(x.src.begin(), x.src.end(), [&](int src) { return is_of_block_[static_cast<size_t>(src)]; });
}

std::string BlockShares::text_of(int position) {
  const Instruction& x = program_.code[static_cast<size_t>(position)];
  if (is_constant(x)) return std::to_string(x.arg.i);
  return x.kind == Inst::Part ? part(x) : expression(position);
}

std::string BlockShares::part(const Instruction& x) {
  const std::string function =
      std::string("@llvm.nvvm.read.ptx.sreg.") + (part_value(x) == PartValue::Index ? "ctaid.x" : "nctaid.x");
  out_.declare("declare i32 " + function + "()");
  const std::string number = once("call i32 " + function + "()");
  return x.dtype == DType::I32 ? number : once("zext i32 " + number + " to i64");
}

std::string BlockShares::expression(int position) {
  const Instruction& x = program_.code[static_cast<size_t>(position)];
  const std::string type = ir_type(x.dtype, 1), first = text_of(x.src[0]);
  if (x.op == Op::Cast) {
    const DType from = program_.code[static_cast<size_t>(x.src[0])].dtype;
    if (from == x.dtype) return first;
    return once((x.dtype == DType::I64 ? "sext " : "trunc ") + ir_type(from, 1) + " " + first + " to " + type);
  }
  const std::string second = text_of(x.src[1]);
  const bool may_be_negative = bounds_[static_cast<size_t>(x.src[0])].min < 0;
  if (x.op == Op::Max) {
    const std::string function = "@llvm.smax." + type;
    out_.declare("declare " + type + " " + function + "(" + type + ", " + type + ")");
    return once("call " + type + " " + function + "(" + type + " " + first + ", " + type + " " + second + ")");
  }
  if (divides(x.op) && may_be_negative) return rounded_down(type, name_of_op(x.op), first, second);
  return once(std::string(name_of_op(x.op)) + " " + type + " " + first + ", " + second);
}

// A quotient of numbers with a sign is rounded down, LLVM's towards zero; y > 0.
std::string BlockShares::rounded_down(const std::string& type, const std::string& op, const std::string& x,
                                      const std::string& y) {
  const std::string rest = once("srem " + type + " " + x + ", " + y);
  const std::string is_below = once("icmp slt " + type + " " + rest + ", 0");
  if (op == "srem") {
    const std::string missing = once("select i1 " + is_below + ", " + type + " " + y + ", " + type + " 0");
    return once("add " + type + " " + rest + ", " + missing);
  }
  const std::string quotient = once("sdiv " + type + " " + x + ", " + y);
  return once("add " + type + " " + quotient + ", " + once("sext i1 " + is_below + " to " + type));
}

std::string BlockShares::once(const std::string& expression) {
  const auto [known, is_new] = names_.try_emplace(expression, "%share." + std::to_string(names_.size()));
  if (is_new) out_.line(known->second + " = " + expression);
  return known->second;
}

}  // namespace smelt
