#include "render/llvm_math.h"

#include <initializer_list>

#include "base/ensure.h"

namespace smelt {
namespace {

// Short spelling of the instructions of these formulas, over vectors of one width. C++ leaves the
// order of arguments to its compiler and the text must not depend on it: at most one argument of a
// call may make instructions.
class Formula {
 public:
  Formula(LlvmWriter& out, int lanes, bool fma = false) : out_(out), lanes_(lanes), fma_(fma) {}

  IrValue f(double value) const { return ir_float(value, DType::F32, lanes_); }
  IrValue i(int64_t value) const { return ir_int(value, DType::I32, lanes_); }

  IrValue op(const std::string& name, const IrValue& x, const IrValue& y) {
    return out_.emit(x.dtype, lanes_, name + " " + ir_type(x.dtype, lanes_) + " " + x.text + ", " + y.text);
  }
  IrValue add(const IrValue& x, const IrValue& y) { return op(name("add", x), x, y); }
  IrValue sub(const IrValue& x, const IrValue& y) { return op(name("sub", x), x, y); }
  IrValue mul(const IrValue& x, const IrValue& y) { return op(name("mul", x), x, y); }
  // x * y + z
  IrValue mul_add(const IrValue& x, const IrValue& y, const IrValue& z) {
    return fma_ ? render_fma(out_, x, y, z) : add(mul(x, y), z);
  }
  IrValue bit_and(const IrValue& x, int64_t y) { return op("and", x, i(y)); }
  IrValue shl(const IrValue& x, int y) { return op("shl", x, i(y)); }
  IrValue shr(const IrValue& x, int y) { return op("lshr", x, i(y)); }

  IrValue compare(const std::string& name, const IrValue& x, const IrValue& y) {
    IrValue result = op(name, x, y);
    result.dtype = DType::Bool;
    return result;
  }
  IrValue select(const IrValue& condition, const IrValue& x, const IrValue& y) {
    std::string type = ir_type(x.dtype, lanes_);
    return out_.emit(x.dtype, lanes_,
                     "select " + ir_type(DType::Bool, lanes_) + " " + condition.text + ", " + type + " " + x.text +
                         ", " + type + " " + y.text);
  }
  IrValue convert(const std::string& name, const IrValue& x, DType dtype) {
    return raw(dtype, name + " " + ir_type(x.dtype, lanes_) + " " + x.text + " to " + ir_type(dtype, lanes_));
  }
  IrValue bits(const IrValue& x) { return convert("bitcast", x, DType::I32); }
  IrValue number(const IrValue& x) { return convert("bitcast", x, DType::F32); }
  IrValue raw(DType dtype, const std::string& expression) { return out_.emit(dtype, lanes_, expression); }

  // Horner's rule; the highest coefficient comes first.
  IrValue polynomial(const IrValue& x, std::initializer_list<double> coefficients) {
    auto c = coefficients.begin();
    IrValue sum = f(*c++);
    for (; c != coefficients.end(); ++c) sum = mul_add(sum, x, f(*c));
    return sum;
  }

 private:
  static std::string name(const std::string& op, const IrValue& x) { return is_float(x.dtype) ? "f" + op : op; }

  LlvmWriter& out_;
  int lanes_;
  bool fma_;
};

}  // namespace

IrValue render_fma(LlvmWriter& out, const IrValue& x, const IrValue& y, const IrValue& z) {
  const std::string type = ir_type(x.dtype, x.lanes);
  const std::string suffix =
      (x.lanes > 1 ? "v" + std::to_string(x.lanes) : "") + (x.dtype == DType::F64 ? "f64" : "f32");
  const std::string function = "@llvm.fma." + suffix;
  out.declare("declare " + type + " " + function + "(" + type + ", " + type + ", " + type + ")");
  return out.emit(x.dtype, x.lanes,
                  "call " + type + " " + function + "(" + type + " " + x.text + ", " + type + " " + y.text + ", " +
                      type + " " + z.text + ")");
}

// 2^x = 2^n * 2^f with n the nearest integer. Adding 1.5 * 2^23 rounds x to an integer that then
// stands in the low bits.
IrValue render_exp2(LlvmWriter& out, const IrValue& x, bool fma) {
  ENSURE(x.dtype == DType::F32, "exp2 is rendered in f32 only");
  Formula m(out, x.lanes, fma);
  IrValue shifted = m.add(x, m.f(12582912.0));
  IrValue fraction = m.sub(x, m.sub(shifted, m.f(12582912.0)));
  // Minimax on [-1/2, 1/2], relative error 2.0e-9.
  IrValue p = m.polynomial(
      fraction, {0x1.41fbbcp-13, 0x1.5f3e54p-10, 0x1.3b2d4cp-7, 0x1.c6aee8p-5, 0x1.ebfbdcp-3, 0x1.62e430p-1, 1.0});
  IrValue exponent = m.shl(m.bits(shifted), 23);
  IrValue scaled = m.number(m.add(exponent, m.bits(p)));
  // Beyond the exponents of a normal float: infinity (by an addition, so that NaN stays NaN) and 0.
  IrValue infinity = m.add(x, m.f(1e300));
  IrValue high = m.select(m.compare("fcmp olt", x, m.f(128)), scaled, infinity);
  return m.select(m.compare("fcmp olt", x, m.f(-126)), m.f(0), high);
}

IrValue exp2_of_unit(LlvmWriter& out, const IrValue& x) {
  return out.emit(DType::F32, 1, call_of_instruction("float", "ex2.approx.ftz.f32 $0, $1", "=f,f", "float " + x.text));
}

// The rounded quotient would be a call for some operands, and beside a call no products of a warpgroup are under way
// together.
IrValue quotient_of_unit(LlvmWriter& out, const IrValue& x, const IrValue& y) {
  return out.emit(
      DType::F32, 1,
      call_of_instruction("float", "div.full.f32 $0, $1, $2", "=f,f,f", "float " + x.text + ", float " + y.text));
}

// log2(x) = e + log2(1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
IrValue render_log2(LlvmWriter& out, const IrValue& x, bool fma) {
  ENSURE(x.dtype == DType::F32, "log2 is rendered in f32 only");
  Formula m(out, x.lanes, fma);
  constexpr int64_t kSqrtHalf = 0x3f3504f3;
  IrValue subnormal = m.compare("fcmp olt", x, m.f(0x1p-126));
  IrValue normal = m.select(subnormal, m.mul(x, m.f(0x1p23)), x);
  IrValue offset = m.sub(m.bits(normal), m.i(kSqrtHalf));
  IrValue exponent = m.convert("sitofp", m.op("ashr", offset, m.i(23)), DType::F32);
  exponent = m.sub(exponent, m.select(subnormal, m.f(23), m.f(0)));
  IrValue fraction = m.sub(m.number(m.add(m.bit_and(offset, 0x7fffff), m.i(kSqrtHalf))), m.f(1));
  // log2(1 + f) / f, minimax, relative error 2.6e-8.
  IrValue p = m.polynomial(
      fraction, {0.125837042927742, -0.2072698175907135, 0.21571563184261322, -0.23894481360912323, 0.28791624307632446,
                 -0.3607036769390106, 0.48091062903404236, -0.7213473320007324, 1.4426950216293335});
  IrValue result = m.mul_add(fraction, p, exponent);
  // Infinity and NaN give themselves, 0 gives -infinity, what is negative NaN.
  result = m.select(m.compare("fcmp olt", x, m.f(1e300)), result, x);
  result = m.select(m.compare("fcmp oeq", x, m.f(0)), m.f(-1e300), result);
  return m.select(m.compare("fcmp olt", x, m.f(0)), m.f(__builtin_nan("")), result);
}

IrValue render_bf16_to_f32(LlvmWriter& out, const IrValue& x) {
  Formula m(out, x.lanes);
  return m.number(m.shl(m.convert("zext", x, DType::I32), 16));
}

IrValue render_f32_to_bf16(LlvmWriter& out, const IrValue& x) {
  Formula m(out, x.lanes);
  IrValue bits = m.bits(x);
  IrValue odd = m.bit_and(m.shr(bits, 16), 1);
  IrValue rounded = m.add(odd, m.add(bits, m.i(0x7fff)));
  IrValue quiet = m.op("or", bits, m.i(0x400000));  // rounding could make an infinity of a NaN
  IrValue high = m.shr(m.select(m.compare("fcmp uno", x, x), quiet, rounded), 16);
  return m.convert("trunc", high, DType::BF16);
}

namespace {

// The exponent moves from bias 15 to 127; subnormals are counted in units of 2^-24.
IrValue f16_to_f32_in_integers(Formula& m, const IrValue& x) {
  IrValue wide = m.convert("zext", x, DType::I32);
  IrValue magnitude = m.bit_and(wide, 0x7fff);
  IrValue shifted = m.shl(magnitude, 13);
  IrValue normal = m.add(shifted, m.i(112 << 23));
  IrValue special = m.op("or", shifted, m.i(0x7f800000));
  IrValue is_nan = m.compare("icmp ugt", magnitude, m.i(0x7c00));
  IrValue quiet = m.op("or", special, m.i(0x400000));
  special = m.select(is_nan, quiet, special);
  IrValue subnormal = m.bits(m.mul(m.convert("uitofp", magnitude, DType::F32), m.f(0x1p-24)));
  IrValue value = m.select(m.compare("icmp ult", magnitude, m.i(0x400)), subnormal, normal);
  value = m.select(m.compare("icmp ult", magnitude, m.i(0x7c00)), value, special);
  IrValue sign = m.shl(m.bit_and(wide, 0x8000), 16);
  return m.number(m.op("or", value, sign));
}

IrValue f32_to_f16_in_integers(Formula& m, const IrValue& x) {
  IrValue bits = m.bits(x);
  IrValue magnitude = m.bit_and(bits, 0x7fffffff);
  IrValue odd = m.bit_and(m.shr(magnitude, 13), 1);
  IrValue normal = m.shr(m.add(m.add(magnitude, m.i(0xfff - (112 << 23))), odd), 13);
  // Below 2^-14: the addition of 0.5 rounds to units of 2^-24, which stand in the low bits.
  IrValue subnormal = m.sub(m.bits(m.add(m.number(magnitude), m.f(0.5))), m.i(0x3f000000));
  IrValue value = m.select(m.compare("icmp ult", magnitude, m.i(113 << 23)), subnormal, normal);
  value = m.select(m.compare("icmp ult", magnitude, m.i(0x47800000)), value, m.i(0x7c00));
  // A NaN keeps the high bits of its payload, as the hardware does.
  IrValue nan = m.op("or", m.bit_and(m.shr(magnitude, 13), 0x3ff), m.i(0x7e00));
  value = m.select(m.compare("icmp ugt", magnitude, m.i(0x7f800000)), nan, value);
  IrValue sign = m.bit_and(m.shr(bits, 16), 0x8000);
  return m.convert("trunc", m.op("or", value, sign), DType::F16);
}

std::string half_type(int lanes) { return lanes == 1 ? "half" : "<" + std::to_string(lanes) + " x half>"; }

}  // namespace

IrValue render_f16_to_f32(LlvmWriter& out, const IrValue& x, bool in_hardware) {
  Formula m(out, x.lanes);
  if (!in_hardware) return f16_to_f32_in_integers(m, x);
  std::string half = half_type(x.lanes);
  std::string value = out.emit("bitcast " + ir_type(x.dtype, x.lanes) + " " + x.text + " to " + half);
  return m.raw(DType::F32, "fpext " + half + " " + value + " to " + ir_type(DType::F32, x.lanes));
}

IrValue render_f32_to_f16(LlvmWriter& out, const IrValue& x, bool in_hardware) {
  Formula m(out, x.lanes);
  if (!in_hardware) return f32_to_f16_in_integers(m, x);
  std::string half = half_type(x.lanes);
  std::string value = out.emit("fptrunc " + ir_type(DType::F32, x.lanes) + " " + x.text + " to " + half);
  return m.raw(DType::F16, "bitcast " + half + " " + value + " to " + ir_type(DType::F16, x.lanes));
}

// Rounding to odd: the last bit of an inexact result is set and its magnitude is not above the true
// one, so that no tie and no exact value can appear that was not there.
IrValue render_f64_to_f32_odd(LlvmWriter& out, const IrValue& x) {
  Formula m(out, x.lanes);
  IrValue nearest = m.convert("fptrunc", x, DType::F32);
  IrValue back = m.convert("fpext", nearest, DType::F64);
  // Away from zero: above a positive x or below a negative one.
  IrValue zero = ir_float(0, DType::F64, x.lanes);
  IrValue above = m.compare("fcmp ogt", back, x), below = m.compare("fcmp olt", back, x);
  IrValue away = m.select(m.compare("fcmp ogt", x, zero), above, below);
  IrValue bits = m.bits(nearest);
  IrValue odd = m.op("or", m.sub(bits, m.convert("zext", away, DType::I32)), m.i(1));
  return m.number(m.select(m.compare("fcmp one", back, x), odd, bits));
}

}  // namespace smelt
