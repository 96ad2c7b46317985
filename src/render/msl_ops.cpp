#include "render/msl_ops.h"

#include <bit>

#include "base/ensure.h"

namespace smelt {
namespace {

bool is_small_float(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

// Arithmetic on narrow integers is done on int: the result is brought back to its width.
MslExpr back_to(DType dtype, const MslExpr& x) { return size_of(dtype) < 4 ? msl_cast(dtype, x) : x; }

// Signed arithmetic that may wrap is done on unsigned numbers.
MslExpr wrapping(DType dtype, const MslExpr& x, const std::string& name, const MslExpr& y, MslBinding binding) {
  const DType same_width = dtype == DType::I64 ? DType::I64 : DType::U32;
  const std::string type = dtype == DType::I64 ? "ulong" : msl_type(same_width);
  const auto as_unsigned = [&](const MslExpr& e) { return msl_call(type, {&e, 1}); };
  return msl_cast(dtype, msl_binary(as_unsigned(x), name, as_unsigned(y), binding));
}

MslExpr plain_or_wrapping(const Instruction& x, std::span<const MslOperand> operands, const std::string& name,
                          MslBinding binding, bool is_exact) {
  const MslExpr &a = operands[0].expr, &b = operands[1].expr;
  // The overflow of i64 is undefined, and int holds sums and differences of narrow numbers; not products of u16.
  const bool is_narrow = size_of(x.dtype) == 1 || (size_of(x.dtype) == 2 && binding == MslBinding::Sum);
  if (x.dtype == DType::I64 || x.dtype == DType::U32 || is_narrow || (is_exact && x.dtype == DType::I32))
    return back_to(x.dtype, msl_binary(a, name, b, binding));
  return wrapping(x.dtype, a, name, b, binding);
}

bool is_power_of_two(std::optional<int64_t> value) {
  return value && *value > 0 && std::has_single_bit(static_cast<uint64_t>(*value));
}

MslExpr whole(int64_t value, DType dtype) { return {msl_int(value, dtype)}; }

// Quotients of signed numbers are rounded down, those of the language towards zero; y > 0.
MslExpr divide(const Instruction& x, std::span<const MslOperand> operands, MslPreamble& preamble) {
  const MslOperand &a = operands[0], &b = operands[1];
  if (is_power_of_two(b.constant)) {
    const int bits = std::countr_zero(static_cast<uint64_t>(*b.constant));
    return back_to(x.dtype, msl_binary(a.expr, ">>", {std::to_string(bits)}, MslBinding::Shift));
  }
  if (!is_signed_int(x.dtype) || a.is_non_negative)
    return back_to(x.dtype, msl_binary(a.expr, "/", b.expr, MslBinding::Product));
  const MslExpr both[] = {a.expr, b.expr};
  return msl_call(preamble.function("floor_div") + "<" + msl_type(x.dtype) + ">", both);
}

MslExpr remainder(const Instruction& x, std::span<const MslOperand> operands, MslPreamble& preamble) {
  const MslOperand &a = operands[0], &b = operands[1];
  if (is_power_of_two(b.constant))
    return back_to(x.dtype, msl_binary(a.expr, "&", whole(*b.constant - 1, x.dtype), MslBinding::Bits));
  if (!is_signed_int(x.dtype) || a.is_non_negative)
    return back_to(x.dtype, msl_binary(a.expr, "%", b.expr, MslBinding::Product));
  const MslExpr both[] = {a.expr, b.expr};
  return msl_call(preamble.function("floor_mod") + "<" + msl_type(x.dtype) + ">", both);
}

MslExpr shift_left(const Instruction& x, const MslExpr& a, const MslExpr& by) {
  const std::string wide = x.dtype == DType::I64 ? "ulong" : "uint";
  const MslExpr moved = msl_binary(msl_call(wide, {&a, 1}), "<<", by, MslBinding::Shift);
  return x.dtype == DType::U32 ? moved : msl_cast(x.dtype, moved);
}

MslExpr negative(const Instruction& x, const MslExpr& a, bool is_exact) {
  const bool may_wrap = x.dtype == DType::U32 || (x.dtype == DType::I32 && !is_exact);
  if (may_wrap) return wrapping(x.dtype, whole(0, x.dtype), "-", a, MslBinding::Sum);
  const bool is_sign = a.text.starts_with("-");
  return back_to(x.dtype, {"-" + (is_sign ? "(" + a.text + ")" : a.in(MslBinding::Unary)), MslBinding::Unary});
}

MslExpr bits(const Instruction& x, std::span<const MslOperand> operands, const char* of_bool, const char* of_int) {
  const MslExpr &a = operands[0].expr, &b = operands[1].expr;
  if (x.dtype == DType::Bool)
    return msl_binary(a, of_bool, b, x.op == Op::Xor ? MslBinding::Equality : MslBinding::Logic);
  return back_to(x.dtype, msl_binary(a, of_int, b, MslBinding::Bits));
}

MslExpr int_op(const Instruction& x, std::span<const MslOperand> operands, bool is_exact, MslPreamble& preamble) {
  const MslExpr& a = operands[0].expr;
  const MslExpr both[] = {a, operands.size() > 1 ? operands[1].expr : MslExpr()};
  switch (x.op) {
    case Op::Neg: return negative(x, a, is_exact);
    case Op::Not:
      if (x.dtype == DType::Bool) return {"!" + a.in(MslBinding::Unary), MslBinding::Unary};
      return back_to(x.dtype, {"~" + a.in(MslBinding::Unary), MslBinding::Unary});
    case Op::Add: return plain_or_wrapping(x, operands, "+", MslBinding::Sum, is_exact);
    case Op::Sub: return plain_or_wrapping(x, operands, "-", MslBinding::Sum, is_exact);
    case Op::Mul: return plain_or_wrapping(x, operands, "*", MslBinding::Product, is_exact);
    case Op::Div: return divide(x, operands, preamble);
    case Op::Mod: return remainder(x, operands, preamble);
    case Op::Max: return msl_call("max", both);
    case Op::Min: return msl_call("min", both);
    case Op::And: return bits(x, operands, "&&", "&");
    case Op::Or: return bits(x, operands, "||", "|");
    case Op::Xor: return bits(x, operands, "!=", "^");
    case Op::Shl: return shift_left(x, a, both[1]);
    case Op::Shr: return back_to(x.dtype, msl_binary(a, ">>", both[1], MslBinding::Shift));
    case Op::Lt: return msl_binary(a, "<", both[1], MslBinding::Order);
    case Op::Eq: return msl_binary(a, "==", both[1], MslBinding::Equality);
    default: ENSURE(false, "no integer form of " + std::string(name_of(x.op)));
  }
  return {};
}

MslExpr float_op(const Instruction& x, std::span<const MslExpr> operands, MslPreamble& preamble) {
  const auto two = [&](const char* name, MslBinding binding) {
    return msl_binary(operands[0], name, operands[1], binding);
  };
  switch (x.op) {
    case Op::Neg: {
      const bool is_sign = operands[0].text.starts_with("-");
      return {"-" + (is_sign ? "(" + operands[0].text + ")" : operands[0].in(MslBinding::Unary)), MslBinding::Unary};
    }
    case Op::Exp2: return msl_call("exp2", operands);
    case Op::Log2: return msl_call("log2", operands);
    case Op::Sqrt: return msl_call("sqrt", operands);
    case Op::Floor: return msl_call("floor", operands);
    case Op::Fma: return msl_call("fma", operands);
    case Op::Add: return two("+", MslBinding::Sum);
    case Op::Sub: return two("-", MslBinding::Sum);
    case Op::Mul: return two("*", MslBinding::Product);
    case Op::Div: return two("/", MslBinding::Product);
    case Op::Max: return msl_call(preamble.function("larger"), operands);
    case Op::Min: return msl_call(preamble.function("smaller"), operands);
    case Op::Lt: return two("<", MslBinding::Order);
    case Op::Eq: return two("==", MslBinding::Equality);
    default: ENSURE(false, "no float form of " + std::string(name_of(x.op)));
  }
  return {};
}

MslExpr to_f32(const MslOperand& x, MslPreamble& preamble) {
  if (x.dtype == DType::BF16) return msl_call(preamble.function("from_bf16"), {&x.expr, 1});
  return x.dtype == DType::F16 ? msl_cast(DType::F32, x.expr) : x.expr;
}

MslExpr from_f32(const MslExpr& x, DType dtype, MslPreamble& preamble) {
  if (dtype == DType::BF16) return msl_call(preamble.function("to_bf16"), {&x, 1});
  return dtype == DType::F16 ? msl_cast(DType::F16, x) : x;
}

// Work on floats is done in F32.
MslExpr render_float(const Instruction& x, std::span<const MslOperand> operands, MslPreamble& preamble) {
  std::vector<MslExpr> wide;
  for (const MslOperand& operand : operands) wide.push_back(to_f32(operand, preamble));
  const MslExpr result = float_op(x, wide, preamble);
  return x.dtype == DType::Bool ? result : from_f32(result, x.dtype, preamble);
}

MslExpr render_bitcast(const MslOperand& x, DType dtype, MslPreamble& preamble) {
  if (dtype == DType::Bool || x.dtype == DType::Bool) return render_msl_cast(x, dtype, preamble);
  if (msl_type(x.dtype) == msl_type(dtype)) return x.expr;
  return msl_call("as_type<" + msl_type(dtype) + ">", {&x.expr, 1});
}

MslExpr render_choice(const Instruction& x, std::span<const MslOperand> operands) {
  const auto part = [&](size_t i) { return operands[i].expr.in(MslBinding::Choice); };
  const MslExpr chosen{part(0) + " ? " + part(1) + " : " + part(2), MslBinding::Choice};
  return x.dtype == DType::Bool ? chosen : back_to(x.dtype, chosen);
}

}  // namespace

MslExpr render_msl_cast(const MslOperand& x, DType dtype, MslPreamble& preamble) {
  if (x.dtype == dtype) return x.expr;
  if (is_small_float(x.dtype)) return render_msl_cast({to_f32(x, preamble), DType::F32}, dtype, preamble);
  if (dtype == DType::Bool)
    return msl_binary(x.expr, "!=", {is_float(x.dtype) ? msl_float(0, x.dtype) : "0"}, MslBinding::Equality);
  if (!is_small_float(dtype)) return msl_cast(dtype, x.expr);
  return from_f32(x.dtype == DType::F32 ? x.expr : msl_cast(DType::F32, x.expr), dtype, preamble);
}

MslExpr render_msl_value(const Instruction& x, std::span<const MslOperand> operands, bool is_exact,
                         MslPreamble& preamble) {
  switch (x.op) {
    case Op::Const: return {is_float(x.dtype) ? msl_float(x.arg.f, x.dtype) : msl_int(x.arg.i, x.dtype)};
    case Op::Where: return render_choice(x, operands);
    case Op::Cast: return render_msl_cast(operands[0], x.dtype, preamble);
    case Op::Bitcast: return render_bitcast(operands[0], x.dtype, preamble);
    case Op::Lut: {
      const MslExpr entry{preamble.table(x.arg.list, x.dtype) + "[" + operands[0].expr.text + "]"};
      return x.dtype == DType::Bool ? render_msl_cast({entry, DType::U8}, x.dtype, preamble) : entry;
    }
    case Op::Lut4: {
      const MslExpr arguments[] = {{preamble.table(x.arg.list, DType::U8)}, operands[0].expr};
      return msl_call(preamble.function("look_up4"), arguments);
    }
    case Op::Mad16: {
      const MslExpr arguments[] = {operands[0].expr, operands[1].expr, operands[2].expr};
      return msl_call(preamble.function("mad16"), arguments);
    }
    case Op::Dot4: {
      const MslExpr arguments[] = {operands[0].expr, operands[1].expr, operands[2].expr};
      return msl_call(preamble.function("dot4"), arguments);
    }
    default: break;
  }
  return is_float(operands[0].dtype) ? render_float(x, operands, preamble) : int_op(x, operands, is_exact, preamble);
}

}  // namespace smelt
