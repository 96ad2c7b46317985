#include "graph/scalar_math.h"

#include <bit>
#include <cmath>
#include <limits>

#include "graph/constants.h"

namespace smelt {
namespace {

// Layout of the small float formats: 1 sign bit, then exponent, then mantissa.
struct SmallFloat {
  int exponent_bits, mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

constexpr SmallFloat kF16{5, 10};
constexpr SmallFloat kBF16{8, 7};

// Nearest representable value: scale so that one unit in the last place is 1, round half to even,
// scale back.
double round_small(double value, SmallFloat format) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = std::max(std::ilogb(value), 1 - format.bias());
  int unit = exponent - format.mantissa_bits;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  double limit = std::ldexp(1.0, format.bias() + 1);
  return std::fabs(rounded) >= limit ? std::copysign(INFINITY, value) : rounded;
}

uint64_t small_bits(double value, SmallFloat format) {
  uint64_t sign = std::signbit(value) ? uint64_t{1} << (format.exponent_bits + format.mantissa_bits) : 0;
  uint64_t top = (uint64_t{1} << format.exponent_bits) - 1;
  if (std::isnan(value)) return sign | top << format.mantissa_bits | uint64_t{1} << (format.mantissa_bits - 1);
  double x = std::fabs(round_small(value, format));
  if (std::isinf(x)) return sign | top << format.mantissa_bits;
  if (x == 0) return sign;
  int exponent = std::max(std::ilogb(x), 1 - format.bias());
  auto mantissa = static_cast<uint64_t>(std::ldexp(x, format.mantissa_bits - exponent));
  uint64_t hidden = uint64_t{1} << format.mantissa_bits;
  if (mantissa < hidden) return sign | mantissa;  // subnormal
  return sign | static_cast<uint64_t>(exponent + format.bias()) << format.mantissa_bits | (mantissa - hidden);
}

double small_value(uint64_t bits, SmallFloat format) {
  uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  int top = (1 << format.exponent_bits) - 1;
  int exponent = static_cast<int>(bits >> format.mantissa_bits) & top;
  bool negative = bits >> (format.exponent_bits + format.mantissa_bits) & 1;
  double x;
  if (exponent != 0 && exponent != top) {
    constexpr int kMantissa = 52, kBias = 1023;  // of a double, where each of these numbers has its place
    x = std::bit_cast<double>(static_cast<uint64_t>(exponent - format.bias() + kBias) << kMantissa |
                              mantissa << (kMantissa - format.mantissa_bits));
  } else if (exponent == top) {
    x = mantissa ? std::numeric_limits<double>::quiet_NaN() : INFINITY;
  } else {
    x = std::ldexp(static_cast<double>(mantissa), 1 - format.bias() - format.mantissa_bits);
  }
  return negative ? -x : x;
}

// An exact result brought to the dtype: narrow integers wrap, an i64 that overflows is undefined.
[[gnu::always_inline]] inline std::optional<int64_t> narrow(__int128 value, DType dtype) {
  if (dtype == DType::I64) {
    const auto narrowed = static_cast<int64_t>(value);
    return narrowed == value ? std::optional(narrowed) : std::nullopt;
  }
  return wrap(static_cast<int64_t>(static_cast<unsigned __int128>(value)), dtype);
}

std::optional<int64_t> shift(Op op, DType dtype, int64_t x, int64_t y) {
  if (y < 0 || y >= 8 * size_of(dtype)) return std::nullopt;
  if (op == Op::Shr) return x >> y;
  return narrow(static_cast<__int128>(x) * (static_cast<__int128>(1) << y), dtype);
}

// Inline, as binary_value() is: what is left of them for one op and one dtype is a few instructions.
[[gnu::always_inline]] inline std::optional<int64_t> int_binary(Op op, DType dtype, int64_t x, int64_t y) {
  __int128 wide = x;
  switch (op) {
    case Op::Add: return narrow(wide + y, dtype);
    case Op::Sub: return narrow(wide - y, dtype);
    case Op::Mul: return narrow(wide * y, dtype);
    case Op::Div: return y > 0 ? std::optional(floor_div(x, y)) : std::nullopt;
    case Op::Mod: return y > 0 ? std::optional(floor_mod(x, y)) : std::nullopt;
    case Op::Max: return std::max(x, y);
    case Op::Min: return std::min(x, y);
    case Op::And: return x & y;
    case Op::Or: return x | y;
    case Op::Xor: return x ^ y;
    case Op::Shl:
    case Op::Shr: return shift(op, dtype, x, y);
    default: return std::nullopt;
  }
}

std::optional<double> float_binary(Op op, double x, double y) {
  switch (op) {
    case Op::Add: return x + y;
    case Op::Sub: return x - y;
    case Op::Mul: return x * y;
    case Op::Div: return x / y;
    case Op::Max: return x > y ? x : y;
    case Op::Min: return x < y ? x : y;
    default: return std::nullopt;
  }
}

std::optional<double> float_unary(Op op, double x) {
  switch (op) {
    case Op::Neg: return -x;
    case Op::Exp2: return std::exp2(x);
    case Op::Log2: return std::log2(x);
    case Op::Sqrt: return std::sqrt(x);
    case Op::Floor: return std::floor(x);
    default: return std::nullopt;
  }
}

std::optional<Scalar> integer(std::optional<int64_t> value) {
  if (!value) return std::nullopt;
  return Scalar{.i = *value};
}

std::optional<Scalar> real(std::optional<double> value, DType dtype) {
  if (!value) return std::nullopt;
  return Scalar{.f = round_to(*value, dtype)};
}

std::optional<Scalar> convert(Scalar x, DType from, DType to) {
  if (is_float(to)) return Scalar{.f = round_to(is_float(from) ? x.f : static_cast<double>(x.i), to)};
  if (!is_float(from)) return Scalar{.i = wrap(x.i, to)};
  if (to == DType::Bool) return Scalar{.i = x.f != 0};
  double whole = std::trunc(x.f);
  if (!(whole >= static_cast<double>(lowest_int(to)) && whole < -2.0 * static_cast<double>(lowest_int(DType::I64))))
    return std::nullopt;
  if (whole >= 9.2233720368547758e18 || static_cast<int64_t>(whole) > highest_int(to)) return std::nullopt;
  return Scalar{.i = static_cast<int64_t>(whole)};
}

std::optional<Scalar> look_up(const Node& node, int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(node.arg.list.size())) return std::nullopt;
  int64_t entry = node.arg.list[static_cast<size_t>(index)];
  if (is_float(node.dtype)) return Scalar{.f = round_to(static_cast<double>(entry), node.dtype)};
  return Scalar{.i = wrap(entry, node.dtype)};
}

std::optional<Scalar> look_up_bytes(const Node& node, int64_t word) {
  int64_t result = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const auto byte = static_cast<size_t>(word >> shift & 255);
    if (byte >= node.arg.list.size()) return std::nullopt;
    result |= (node.arg.list[byte] & 255) << shift;
  }
  return Scalar{.i = result};
}

std::optional<Scalar> apply_unary(const Node& node, Scalar x) {
  DType from = node.src[0]->dtype;
  switch (node.op) {
    case Op::Cast: return convert(x, from, node.dtype);
    case Op::Bitcast:
      if (size_of(from) != size_of(node.dtype)) return std::nullopt;
      return from_bits(to_bits(x, from), node.dtype);
    case Op::Lut: return look_up(node, x.i);
    case Op::Lut4: return look_up_bytes(node, x.i);
    case Op::Not:
      if (is_float(from)) return std::nullopt;
      return Scalar{.i = from == DType::Bool ? !x.i : wrap(~x.i, from)};
    default:
      if (is_float(node.dtype)) return real(float_unary(node.op, x.f), node.dtype);
      return node.op == Op::Neg ? integer(narrow(-static_cast<__int128>(x.i), node.dtype)) : std::nullopt;
  }
}

}  // namespace

Scalar dot4(int64_t sum, int64_t x, int64_t y) {
  for (int shift = 0; shift < 32; shift += 8) sum += static_cast<uint8_t>(x >> shift) * static_cast<int8_t>(y >> shift);
  return {.i = wrap(sum, DType::I32)};
}

int64_t lowest_int(DType dtype) {
  if (!is_signed_int(dtype)) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(dtype));
}

int64_t highest_int(DType dtype) {
  if (dtype == DType::Bool) return 1;
  int bits = 8 * size_of(dtype) - (is_signed_int(dtype) ? 1 : 0);
  return static_cast<int64_t>((uint64_t{1} << bits) - 1);
}

int64_t wrap(int64_t value, DType dtype) {
  if (dtype == DType::Bool) return value != 0;
  int unused = 64 - 8 * size_of(dtype);
  auto high = static_cast<uint64_t>(value) << unused;
  return is_signed_int(dtype) ? static_cast<int64_t>(high) >> unused : static_cast<int64_t>(high >> unused);
}

int64_t floor_div(int64_t x, int64_t y) { return x / y - (x % y < 0 ? 1 : 0); }
int64_t floor_mod(int64_t x, int64_t y) { return x % y + (x % y < 0 ? y : 0); }

double round_to(double value, DType dtype) {
  switch (dtype) {
    case DType::F16: return round_small(value, kF16);
    case DType::BF16: return round_small(value, kBF16);
    case DType::F32: return static_cast<float>(value);
    default: return value;
  }
}

uint64_t to_bits(Scalar value, DType dtype) {
  switch (dtype) {
    case DType::F16: return small_bits(value.f, kF16);
    case DType::BF16: return small_bits(value.f, kBF16);
    case DType::F32: return std::bit_cast<uint32_t>(static_cast<float>(value.f));
    case DType::F64: return std::bit_cast<uint64_t>(value.f);
    default: {
      int unused = 64 - 8 * size_of(dtype);
      return static_cast<uint64_t>(value.i) << unused >> unused;
    }
  }
}

Scalar from_bits(uint64_t bits, DType dtype) {
  switch (dtype) {
    case DType::F16: return {.f = small_value(bits, kF16)};
    case DType::BF16: return {.f = small_value(bits, kBF16)};
    case DType::F32: return {.f = std::bit_cast<float>(static_cast<uint32_t>(bits))};
    case DType::F64: return {.f = std::bit_cast<double>(bits)};
    default: return {.i = wrap(static_cast<int64_t>(bits), dtype)};
  }
}

Ref constant_of(Scalar value, DType dtype) {
  return is_float(dtype) ? constant_f(value.f, dtype) : constant(value.i, dtype);
}

std::optional<Scalar> scalar_of(Ref node) {
  if (node->op != Op::Const) return std::nullopt;
  return is_float(node->dtype) ? Scalar{.f = node->arg.f} : Scalar{.i = node->arg.i};
}

namespace {

[[gnu::always_inline]] inline std::optional<Scalar> binary_value(Op op, DType operands, const Scalar& x,
                                                                 const Scalar& y) {
  bool floats = is_float(operands);
  if (op == Op::Lt) return Scalar{.i = floats ? x.f < y.f : x.i < y.i};
  if (op == Op::Eq) return Scalar{.i = floats ? x.f == y.f : x.i == y.i};
  return floats ? real(float_binary(op, x.f, y.f), operands) : integer(int_binary(op, operands, x.i, y.i));
}

}  // namespace

std::optional<Scalar> apply_binary(Op op, DType operands, Scalar x, Scalar y) {
  return binary_value(op, operands, x, y);
}

namespace {

// Rounded once: a double is not wide enough for what rounds to a float.
Scalar fma(DType dtype, std::span<const Scalar> x) {
  if (dtype == DType::F32)
    return {.f = std::fma(static_cast<float>(x[0].f), static_cast<float>(x[1].f), static_cast<float>(x[2].f))};
  return {.f = std::fma(x[0].f, x[1].f, x[2].f)};
}

Scalar mad16(std::span<const Scalar> x) {
  const auto half = [&](int shift) {
    const auto part = [&](int i) { return x[static_cast<size_t>(i)].i >> shift & 0xFFFF; };
    return ((part(0) * part(1) + part(2)) & 0xFFFF) << shift;
  };
  return {.i = half(0) | half(16)};
}

int64_t word_of(double low, double high) {
  const auto bits = [](double x) { return static_cast<int64_t>(to_bits({.f = x}, DType::BF16)); };
  return bits(low) | bits(high) << 16;
}

Scalar halves(std::span<const Scalar> x) {
  const auto rounded = [](double value) { return round_to(value, DType::BF16); };
  return {.i = word_of(rounded(x[0].f), rounded(x[1].f))};
}

Scalar less_halves(std::span<const Scalar> x) {
  const double less = round_to(x[1].f, DType::BF16);
  const auto part = [&](int shift) {
    const double half = from_bits(static_cast<uint64_t>(x[0].i) >> shift & 0xFFFF, DType::BF16).f;
    return round_to(half - less, DType::BF16);
  };
  return {.i = word_of(part(0), part(16))};
}

// Both products are exact before they are rounded.
Scalar scaled_halves(const Arg& arg, std::span<const Scalar> x) {
  const double scale = round_to(x[1].f, DType::BF16);
  const auto part = [&](int64_t byte) {
    const int64_t bits = x[0].i >> (8 * byte) & 0xFF;
    const auto integer = static_cast<double>(arg.i == kSignedBytes ? static_cast<int8_t>(bits) : bits - arg.i);
    return round_to(integer / kHalfUnit * scale, DType::BF16);
  };
  return {.i = word_of(part(0), part(2))};
}

}  // namespace

std::optional<Scalar> apply_op(const Node& node, std::span<const Scalar> values) {
  switch (class_of(node.op)) {
    case OpClass::unary: return apply_unary(node, values[0]);
    case OpClass::binary:
      if (node.op == Op::Halves) return halves(values);
      if (node.op == Op::LessHalves) return less_halves(values);
      if (node.op == Op::ScaledHalves) return scaled_halves(node.arg, values);
      return apply_binary(node.op, node.src[0]->dtype, values[0], values[1]);
    case OpClass::ternary:
      if (node.op == Op::Fma) return fma(node.dtype, values);
      if (node.op == Op::Mad16) return mad16(values);
      if (node.op == Op::Dot4) return dot4(values[0].i, values[1].i, values[2].i);
      return values[0].i ? values[1] : values[2];
    default: return std::nullopt;
  }
}

namespace {

bool any_op(const Node& node, const Scalar* const* values, Scalar* result) {
  Scalar operands[3];
  for (size_t i = 0; i < node.src.size(); ++i) operands[i] = *values[i];
  const auto value = apply_op(node, {operands, node.src.size()});
  if (value) *result = *value;
  return value.has_value();
}

bool cast_op(const Node& node, const Scalar* const* values, Scalar* result) {
  const auto value = convert(*values[0], node.src[0]->dtype, node.dtype);
  if (value) *result = *value;
  return value.has_value();
}

// apply_binary() for an op and a dtype that the compiler knows.
template <Op op, DType dtype>
bool binary_op(const Node&, const Scalar* const* values, Scalar* result) {
  const auto value = binary_value(op, dtype, *values[0], *values[1]);
  if (value) *result = *value;
  return value.has_value();
}

// What sums and indices are of; others are rare.
template <Op op>
ScalarFunction binary_of(DType dtype) {
  switch (dtype) {
    case DType::I32: return binary_op<op, DType::I32>;
    case DType::U32: return binary_op<op, DType::U32>;
    case DType::I64: return binary_op<op, DType::I64>;
    case DType::F64: return binary_op<op, DType::F64>;
    default: return any_op;
  }
}

}  // namespace

ScalarFunction scalar_function(const Node& node) {
  const DType dtype = node.src[0]->dtype;
  switch (node.op) {
    case Op::Cast: return cast_op;
    case Op::Add: return binary_of<Op::Add>(dtype);
    case Op::Sub: return binary_of<Op::Sub>(dtype);
    case Op::Mul: return binary_of<Op::Mul>(dtype);
    case Op::Div: return binary_of<Op::Div>(dtype);
    case Op::Mod: return binary_of<Op::Mod>(dtype);
    case Op::Max: return binary_of<Op::Max>(dtype);
    case Op::Min: return binary_of<Op::Min>(dtype);
    case Op::And: return binary_of<Op::And>(dtype);
    case Op::Or: return binary_of<Op::Or>(dtype);
    case Op::Xor: return binary_of<Op::Xor>(dtype);
    case Op::Shl: return binary_of<Op::Shl>(dtype);
    case Op::Shr: return binary_of<Op::Shr>(dtype);
    case Op::Lt: return binary_of<Op::Lt>(dtype);
    case Op::Eq: return binary_of<Op::Eq>(dtype);
    default: return any_op;
  }
}

}  // namespace smelt
