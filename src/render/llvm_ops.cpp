#include "render/llvm_ops.h"

#include <bit>

#include "base/ensure.h"
#include "graph/constants.h"
#include "graph/scalar_math.h"
#include "render/llvm_dot.h"
#include "render/llvm_lut.h"
#include "render/llvm_math.h"

namespace smelt {
namespace {

bool is_small_float(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }
bool is_signed(DType dtype) { return is_signed_int(dtype); }
std::string type_of(const IrValue& x) { return ir_type(x.dtype, x.lanes); }

IrValue to_f32(LlvmWriter& out, const IrValue& x, const Machine& machine) {
  if (x.dtype == DType::F16) return render_f16_to_f32(out, x, machine.f16_convert);
  return render_bf16_to_f32(out, x);
}

IrValue from_f32(LlvmWriter& out, const IrValue& x, DType dtype, const Machine& machine) {
  if (dtype == DType::F16) return render_f32_to_f16(out, x, machine.f16_convert);
  if (machine.isa == Isa::Nvidia)
    return {.text = out.emit(call_of_instruction("i16", "cvt.rn.bf16.f32 $0, $1", "=h,f", "float " + x.text)),
            .dtype = dtype};
  return render_f32_to_bf16(out, x);
}

// `name type x, y`
IrValue two(LlvmWriter& out, const std::string& name, const IrValue& x, const IrValue& y) {
  return out.emit(x.dtype, x.lanes, name + " " + type_of(x) + " " + x.text + ", " + y.text);
}

IrValue compare(LlvmWriter& out, const std::string& name, const IrValue& x, const IrValue& y) {
  IrValue result = two(out, name, x, y);
  result.dtype = DType::Bool;
  return result;
}

IrValue select(LlvmWriter& out, const IrValue& condition, const IrValue& x, const IrValue& y) {
  return out.emit(x.dtype, x.lanes,
                  "select " + type_of(condition) + " " + condition.text + ", " + type_of(x) + " " + x.text + ", " +
                      type_of(y) + " " + y.text);
}

IrValue convert(LlvmWriter& out, const std::string& name, const IrValue& x, DType dtype) {
  return out.emit(dtype, x.lanes, name + " " + type_of(x) + " " + x.text + " to " + ir_type(dtype, x.lanes));
}

IrValue intrinsic(LlvmWriter& out, const std::string& name, std::span<const IrValue> x) {
  std::string suffix = x[0].dtype == DType::F64 ? "f64" : "f32", types, operands;
  if (x[0].lanes > 1) suffix = "v" + std::to_string(x[0].lanes) + suffix;
  for (const IrValue& operand : x) {
    types += (types.empty() ? "" : ", ") + type_of(operand);
    operands += (operands.empty() ? "" : ", ") + type_of(operand) + " " + operand.text;
  }
  const std::string function = "@llvm." + name + "." + suffix;
  out.declare("declare " + type_of(x[0]) + " " + function + "(" + types + ")");
  return out.emit(x[0].dtype, x[0].lanes, "call " + type_of(x[0]) + " " + function + "(" + operands + ")");
}

// --- floats: F32 and F64

IrValue multiply_add(LlvmWriter& out, std::span<const IrValue> x, const Machine& machine) {
  if (!machine.fma) return two(out, "fadd", two(out, "fmul", x[0], x[1]), x[2]);
  return render_fma(out, x[0], x[1], x[2]);
}

IrValue float_op(LlvmWriter& out, Op op, std::span<const IrValue> x, const Machine& machine) {
  switch (op) {
    case Op::Neg: return out.emit(x[0].dtype, x[0].lanes, "fneg " + type_of(x[0]) + " " + x[0].text);
    case Op::Exp2: return machine.isa == Isa::Nvidia ? exp2_of_unit(out, x[0]) : render_exp2(out, x[0], machine.fma);
    case Op::Log2: return render_log2(out, x[0], machine.fma);
    case Op::Sqrt: return intrinsic(out, "sqrt", x);
    case Op::Floor: return intrinsic(out, "floor", x);
    case Op::Add: return two(out, "fadd", x[0], x[1]);
    case Op::Sub: return two(out, "fsub", x[0], x[1]);
    case Op::Mul: return two(out, "fmul", x[0], x[1]);
    case Op::Div:
      return machine.isa == Isa::Nvidia && x[0].dtype == DType::F32 ? quotient_of_unit(out, x[0], x[1])
                                                                    : two(out, "fdiv", x[0], x[1]);
    case Op::Fma: return multiply_add(out, x, machine);
    // On a GPU one instruction, which passes a NaN on; elsewhere exactly what x86's maxps and minps do.
    case Op::Max:
      return machine.isa == Isa::Nvidia ? intrinsic(out, "maximum", x)
                                        : select(out, compare(out, "fcmp ogt", x[0], x[1]), x[0], x[1]);
    case Op::Min:
      return machine.isa == Isa::Nvidia ? intrinsic(out, "minimum", x)
                                        : select(out, compare(out, "fcmp olt", x[0], x[1]), x[0], x[1]);
    case Op::Lt: return compare(out, "fcmp olt", x[0], x[1]);
    case Op::Eq: return compare(out, "fcmp oeq", x[0], x[1]);
    default: ENSURE(false, "no float form of " + std::string(name_of(op)));
  }
  return {};
}

// --- integers and bool

bool is_power_of_two(std::optional<int64_t> value) {
  return value && *value > 0 && std::has_single_bit(static_cast<uint64_t>(*value));
}

// Quotients of signed numbers are rounded down, LLVM's towards zero; y > 0.
IrValue divide(LlvmWriter& out, const IrValue& x, const IrValue& y) {
  if (is_power_of_two(y.integer)) {
    int bits = std::countr_zero(static_cast<uint64_t>(*y.integer));
    return two(out, is_signed(x.dtype) ? "ashr" : "lshr", x, ir_int(bits, x.dtype, x.lanes));
  }
  if (!is_signed(x.dtype)) return two(out, "udiv", x, y);
  IrValue quotient = two(out, "sdiv", x, y);
  if (x.non_negative) return quotient;
  IrValue below = compare(out, "icmp slt", two(out, "srem", x, y), ir_int(0, x.dtype, x.lanes));
  return two(out, "add", quotient, convert(out, "sext", below, x.dtype));
}

IrValue remainder(LlvmWriter& out, const IrValue& x, const IrValue& y) {
  if (is_power_of_two(y.integer)) return two(out, "and", x, ir_int(*y.integer - 1, x.dtype, x.lanes));
  if (!is_signed(x.dtype)) return two(out, "urem", x, y);
  IrValue rest = two(out, "srem", x, y);
  if (x.non_negative) return rest;
  IrValue zero = ir_int(0, x.dtype, x.lanes);
  return two(out, "add", rest, select(out, compare(out, "icmp slt", rest, zero), y, zero));
}

IrValue shift(LlvmWriter& out, const std::string& name, const IrValue& x, IrValue amount) {
  if (amount.integer)
    amount = ir_int(*amount.integer, x.dtype, x.lanes);
  else if (size_of(amount.dtype) < size_of(x.dtype))
    amount = convert(out, "zext", amount, x.dtype);
  else if (size_of(amount.dtype) > size_of(x.dtype))
    amount = convert(out, "trunc", amount, x.dtype);
  return two(out, name, x, amount);
}

IrValue int_op(LlvmWriter& out, Op op, std::span<const IrValue> x, bool is_exact) {
  // The overflow of i64 is undefined.
  const std::string nsw = x[0].dtype == DType::I64 || (is_exact && x[0].dtype == DType::I32) ? " nsw" : "";
  std::string order = is_signed(x[0].dtype) ? "icmp s" : "icmp u";
  auto zero = [&] { return ir_int(0, x[0].dtype, x[0].lanes); };
  auto ones = [&] { return ir_int(x[0].dtype == DType::Bool ? 1 : -1, x[0].dtype, x[0].lanes); };
  switch (op) {
    case Op::Neg: return two(out, "sub" + nsw, zero(), x[0]);
    case Op::Not: return two(out, "xor", x[0], ones());
    case Op::Add: return two(out, "add" + nsw, x[0], x[1]);
    case Op::Sub: return two(out, "sub" + nsw, x[0], x[1]);
    case Op::Mul: return two(out, "mul" + nsw, x[0], x[1]);
    case Op::Div: return divide(out, x[0], x[1]);
    case Op::Mod: return remainder(out, x[0], x[1]);
    case Op::Max: return select(out, compare(out, order + "gt", x[0], x[1]), x[0], x[1]);
    case Op::Min: return select(out, compare(out, order + "lt", x[0], x[1]), x[0], x[1]);
    case Op::And: return two(out, "and", x[0], x[1]);
    case Op::Or: return two(out, "or", x[0], x[1]);
    case Op::Xor: return two(out, "xor", x[0], x[1]);
    case Op::Shl: return shift(out, "shl", x[0], x[1]);
    case Op::Shr: return shift(out, is_signed(x[0].dtype) ? "ashr" : "lshr", x[0], x[1]);
    case Op::Lt: return compare(out, order + "lt", x[0], x[1]);
    case Op::Eq: return compare(out, "icmp eq", x[0], x[1]);
    default: ENSURE(false, "no integer form of " + std::string(name_of(op)));
  }
  return {};
}

// Whether a signed result is known to be >= 0 (i64 does not overflow; narrower integers wrap).
bool is_non_negative(Op op, DType dtype, std::span<const IrValue> x) {
  if (!is_signed(dtype)) return false;
  switch (op) {
    case Op::Add:
    case Op::Mul:
    case Op::Shl: return dtype == DType::I64 && x[0].non_negative && x[1].non_negative;
    case Op::Min: return x[0].non_negative && x[1].non_negative;
    case Op::Max: return x[0].non_negative || x[1].non_negative;
    case Op::And: return x[0].non_negative || x[1].non_negative;
    case Op::Mod: return true;
    case Op::Div:
    case Op::Shr: return x[0].non_negative;
    default: return false;
  }
}

// --- casts

std::string float_cast(DType from, DType to) { return size_of(from) < size_of(to) ? "fpext" : "fptrunc"; }

IrValue cast_from_float(LlvmWriter& out, const IrValue& x, DType dtype) {
  if (is_float(dtype)) return convert(out, float_cast(x.dtype, dtype), x, dtype);
  if (dtype == DType::Bool) return compare(out, "fcmp une", x, ir_float(0, x.dtype, x.lanes));
  return convert(out, is_signed(dtype) ? "fptosi" : "fptoui", x, dtype);
}

IrValue cast_from_int(LlvmWriter& out, const IrValue& x, DType dtype) {
  if (is_float(dtype)) return convert(out, is_signed(x.dtype) ? "sitofp" : "uitofp", x, dtype);
  if (dtype == DType::Bool) return compare(out, "icmp ne", x, ir_int(0, x.dtype, x.lanes));
  int from = x.dtype == DType::Bool ? 0 : size_of(x.dtype);
  IrValue result = x;
  if (from < size_of(dtype)) result = convert(out, is_signed(x.dtype) ? "sext" : "zext", x, dtype);
  if (from > size_of(dtype)) result = convert(out, "trunc", x, dtype);
  result.dtype = dtype;
  bool zero_extended = from < size_of(dtype) && (!is_signed(x.dtype) || x.non_negative);
  result.non_negative = is_signed(dtype) && zero_extended;
  return result;
}

// F64 and integers beyond 24 bits have more digits than F32, and rounding twice is not rounding
// once.
IrValue cast_to_small_float(LlvmWriter& out, IrValue x, DType dtype, const Machine& machine) {
  if (!is_float(x.dtype) && size_of(x.dtype) > 2) x = cast_from_int(out, x, DType::F64);
  if (!is_float(x.dtype)) x = cast_from_int(out, x, DType::F32);
  if (x.dtype == DType::F64) x = render_f64_to_f32_odd(out, x);
  return from_f32(out, x, dtype, machine);
}

IrValue render_bitcast(LlvmWriter& out, const IrValue& x, DType dtype) {
  if (dtype == DType::Bool || x.dtype == DType::Bool) return cast_from_int(out, x, dtype);
  if (ir_type(x.dtype, 1) != ir_type(dtype, 1)) return convert(out, "bitcast", x, dtype);
  IrValue result = x;
  result.dtype = dtype;
  result.non_negative = false;
  if (x.integer) result = is_float(dtype) ? IrValue{x.text, dtype, x.lanes, true} : ir_int(*x.integer, dtype, x.lanes);
  return result;
}

IrValue render_where(LlvmWriter& out, std::span<const IrValue> x, int lanes) {
  // A bit that chooses between vectors becomes a mask: of one bit, LLVM makes a branch, and what follows in registers
  // then waits in memory for the end of the blocks.
  IrValue yes = out.widen(x[1], lanes), no = out.widen(x[2], lanes);
  IrValue result = select(out, out.widen(x[0], lanes), yes, no);
  result.non_negative = x[1].non_negative && x[2].non_negative;
  return result;
}

IrValue render_const(const Instruction& instruction) {
  DType dtype = instruction.dtype;
  return is_float(dtype) ? ir_float(instruction.arg.f, dtype, instruction.lanes)
                         : ir_int(instruction.arg.i, dtype, instruction.lanes);
}

// The ops whose operands are all of one dtype, in which the work is done (F32 for the small
// floats).
IrValue render_arithmetic(LlvmWriter& out, const Instruction& instruction, std::vector<IrValue> x,
                          const Machine& machine, bool is_exact) {
  bool small = is_small_float(x[0].dtype);
  if (small)
    for (IrValue& operand : x) operand = to_f32(out, operand, machine);
  IrValue result =
      is_float(x[0].dtype) ? float_op(out, instruction.op, x, machine) : int_op(out, instruction.op, x, is_exact);
  result.non_negative = is_non_negative(instruction.op, instruction.dtype, x);
  if (small && result.dtype == DType::F32) result = from_f32(out, result, instruction.dtype, machine);
  return result;
}

}  // namespace

IrValue render_cast(LlvmWriter& out, const IrValue& x, DType dtype, const Machine& machine) {
  if (x.dtype == dtype) return x;
  if (is_small_float(x.dtype)) return render_cast(out, to_f32(out, x, machine), dtype, machine);
  if (is_small_float(dtype)) return cast_to_small_float(out, x, dtype, machine);
  return is_float(x.dtype) ? cast_from_float(out, x, dtype) : cast_from_int(out, x, dtype);
}

namespace {

// Words as vectors of twice as many numbers of 16 bits.
IrValue render_mad16(LlvmWriter& out, std::span<const IrValue> x) {
  const int lanes = x[0].lanes;
  const std::string halves = "<" + std::to_string(2 * lanes) + " x i16>";
  const auto as_halves = [&](const IrValue& v) {
    return out.emit("bitcast " + type_of(v) + " " + v.text + " to " + halves);
  };
  const std::string product = out.emit("mul " + halves + " " + as_halves(x[0]) + ", " + as_halves(x[1]));
  const std::string sum = out.emit("add " + halves + " " + product + ", " + as_halves(x[2]));
  return out.emit(DType::U32, lanes, "bitcast " + halves + " " + sum + " to " + type_of(x[0]));
}

// Two rounded numbers in a word of each lane; the first in its low half. The instruction leaves all of `low` in front
// of all of `high`.
IrValue two_halves_of_lanes(LlvmWriter& out, const IrValue& low, const IrValue& high, const Machine& machine) {
  const int lanes = low.lanes;
  const std::string words = ir_type(DType::U32, lanes);
  if (machine.bf16_convert && lanes == 16) {
    const std::string function = "@llvm.x86.avx512bf16.cvtne2ps2bf16.512";
    out.declare("declare <32 x bfloat> " + function + "(<16 x float>, <16 x float>)");
    const std::string halves =
        out.emit("call <32 x bfloat> " + function + "(<16 x float> " + high.text + ", <16 x float> " + low.text + ")");
    std::vector<int> mask;
    for (int lane = 0; lane < lanes; ++lane) mask.insert(mask.end(), {lane, lanes + lane});
    const std::string turned =
        out.emit("shufflevector <32 x bfloat> " + halves + ", <32 x bfloat> poison, " + shuffle_mask(mask));
    return out.emit(DType::U32, lanes, "bitcast <32 x bfloat> " + turned + " to " + words);
  }
  const auto wide = [&](const IrValue& x) { return convert(out, "zext", render_f32_to_bf16(out, x), DType::U32); };
  const IrValue sixteen = ir_int(16, DType::U32, lanes);
  return two(out, "or", wide(low), two(out, "shl", wide(high), sixteen));
}

// The same by a thread of a GPU.
IrValue two_halves(LlvmWriter& out, const IrValue& low, const IrValue& high) {
  return {.text = out.emit(call_of_instruction("i32", "cvt.rn.bf16x2.f32 $0, $1, $2", "=r,f,f",
                                               "float " + high.text + ", float " + low.text)),
          .dtype = DType::U32};
}

// The bits of a bf16 up to 255 are byte * 2^-133, the first ones subnormal numbers: times 2^127 that is byte / 64, less
// what stands for zero. A signed byte is 128 less than the one whose highest bit is the other one. All of that is
// exact.
IrValue render_scaled_halves(LlvmWriter& out, int64_t less, std::span<const IrValue> x) {
  constexpr int64_t kPower = 0x7F007F00, kSigns = 0x00800080;  // 2^127; of both bytes
  const auto op = [&](const std::string& name, const std::string& a, int64_t b) {
    return out.emit(name + " i32 " + a + ", " + std::to_string(b));
  };
  std::string bytes = op("and", x[0].text, 0x00FF00FF);
  if (less == kSignedBytes) bytes = op("xor", bytes, kSigns), less = 128;
  const auto zero = static_cast<int64_t>(to_bits({.f = -static_cast<double>(less) / kHalfUnit}, DType::BF16));
  const std::string number = out.emit(call_of_instruction(
      "i32", "fma.rn.bf16x2 $0, $1, $2, $3", "=r,r,r,r",
      "i32 " + bytes + ", i32 " + std::to_string(kPower) + ", i32 " + std::to_string(zero | zero << 16)));
  const bool is_one = x[1].is_constant && x[1].text == ir_float(1, DType::F32, 1).text;
  if (is_one) return {.text = number, .dtype = DType::U32};
  return {.text = out.emit(call_of_instruction("i32", "mul.rn.bf16x2 $0, $1, $2", "=r,r,r",
                                               "i32 " + number + ", i32 " + two_halves(out, x[1], x[1]).text)),
          .dtype = DType::U32};
}

IrValue render_halves(LlvmWriter& out, const Instruction& instruction, std::span<const IrValue> x,
                      const Machine& machine) {
  if (instruction.op == Op::Halves && machine.isa != Isa::Nvidia) return two_halves_of_lanes(out, x[0], x[1], machine);
  ENSURE(machine.isa == Isa::Nvidia, "only threads with a unit for halves make words of packed bytes");
  if (instruction.op == Op::Halves) return two_halves(out, x[0], x[1]);
  if (instruction.op == Op::ScaledHalves) return render_scaled_halves(out, instruction.arg.i, x);
  return {.text = out.emit(call_of_instruction("i32", "sub.rn.bf16x2 $0, $1, $2", "=r,r,r",
                                               "i32 " + x[0].text + ", i32 " + two_halves(out, x[1], x[1]).text)),
          .dtype = DType::U32};
}

}  // namespace

IrValue render_value(LlvmWriter& out, const Instruction& instruction, std::span<const IrValue> operands,
                     const Machine& machine, bool is_exact) {
  if (instruction.op == Op::Const) return render_const(instruction);
  if (instruction.op == Op::Where) {
    bool one_bit = operands[0].lanes == 1;
    std::vector<IrValue> x(operands.begin(), operands.end());
    if (!one_bit) x[0] = out.widen(x[0], instruction.lanes);
    return render_where(out, x, instruction.lanes);
  }
  std::vector<IrValue> x;
  for (const IrValue& operand : operands) x.push_back(out.widen(operand, instruction.lanes));
  switch (instruction.op) {
    case Op::Cast: return render_cast(out, x[0], instruction.dtype, machine);
    case Op::Bitcast: return render_bitcast(out, x[0], instruction.dtype);
    case Op::Dot4: return render_dot4(out, x[0], x[1], x[2], instruction.arg.i, machine);
    case Op::Mad16: return render_mad16(out, x);
    case Op::Halves:
    case Op::LessHalves:
    case Op::ScaledHalves: return render_halves(out, instruction, x, machine);
    case Op::Lut4: return render_lut4(out, instruction.arg.list, x[0], machine);
    case Op::Lut: return render_lut(out, instruction.arg.list, x[0], instruction.dtype, machine);
    default: return render_arithmetic(out, instruction, std::move(x), machine, is_exact);
  }
}

namespace {

IrValue take_lanes(LlvmWriter& out, const IrValue& x, int begin, int count) {
  if (count == 1)
    return out.emit(x.dtype, 1, "extractelement " + type_of(x) + " " + x.text + ", i64 " + std::to_string(begin));
  std::vector<int> lanes;
  for (int i = 0; i < count; ++i) lanes.push_back(begin + i);
  return out.emit(x.dtype, count,
                  "shufflevector " + type_of(x) + " " + x.text + ", " + type_of(x) + " poison, " + shuffle_mask(lanes));
}

}  // namespace

IrValue render_lane_reduce(LlvmWriter& out, Op op, const IrValue& x, const Machine& machine) {
  Instruction combine{.kind = Inst::Value, .op = op == Op::ReduceMax ? Op::Max : Op::Add, .dtype = x.dtype};
  IrValue rest = x;
  std::vector<IrValue> odd;
  while (rest.lanes > 1) {
    int half = rest.lanes / 2;
    if (rest.lanes % 2) odd.push_back(take_lanes(out, rest, rest.lanes - 1, 1));
    IrValue halves[2] = {take_lanes(out, rest, 0, half), take_lanes(out, rest, half, half)};
    combine.lanes = half;
    rest = render_value(out, combine, halves, machine);
  }
  combine.lanes = 1;
  for (const IrValue& lane : odd) {
    IrValue pair[2] = {rest, lane};
    rest = render_value(out, combine, pair, machine);
  }
  return rest;
}

}  // namespace smelt
