#include "graph/bounds.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace smelt {
namespace {

constexpr int64_t kLow = kNoBounds.min;
constexpr int64_t kHigh = kNoBounds.max;

int64_t saturate(__int128 v) {
  if (v < kLow) return kLow;
  if (v > kHigh) return kHigh;
  return static_cast<int64_t>(v);
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

Bounds product_bounds(Bounds a, Bounds b) {
  const __int128 v[4] = {static_cast<__int128>(a.min) * b.min, static_cast<__int128>(a.min) * b.max,
                         static_cast<__int128>(a.max) * b.min, static_cast<__int128>(a.max) * b.max};
  return {saturate(std::min(std::min(v[0], v[1]), std::min(v[2], v[3]))),
          saturate(std::max(std::max(v[0], v[1]), std::max(v[2], v[3])))};
}

Bounds divide_bounds(Bounds a, Bounds b) {
  if (b.min <= 0) return kNoBounds;
  return {a.min < 0 ? floor_div(a.min, b.min) : a.min / b.max, a.max < 0 ? floor_div(a.max, b.max) : a.max / b.min};
}

Bounds modulo_bounds(Bounds a, Bounds b) {
  if (b.min <= 0) return kNoBounds;
  if (a.min >= 0 && a.max < b.min) return a;
  return {0, a.min >= 0 ? std::min(a.max, b.max - 1) : b.max - 1};
}

Bounds and_bounds(Bounds a, Bounds b) {
  if (a.min >= 0 && b.min >= 0) return {0, std::min(a.max, b.max)};
  if (a.min >= 0) return {0, a.max};
  if (b.min >= 0) return {0, b.max};
  return kNoBounds;
}

Bounds or_bounds(Bounds a, Bounds b) {
  if (a.min < 0 || b.min < 0) return kNoBounds;
  const auto top = static_cast<uint64_t>(a.max | b.max);
  return {0, static_cast<int64_t>(std::bit_width(top) >= 63 ? kHigh : (int64_t{1} << std::bit_width(top)) - 1)};
}

Bounds shift_bounds(Op op, Bounds a, Bounds b) {
  if (b.min != b.max || b.min < 0 || b.min > 62) return op == Op::Shr && a.min >= 0 ? Bounds{0, a.max} : kNoBounds;
  if (op == Op::Shr) return {a.min >> b.min, a.max >> b.min};
  return product_bounds(a, {int64_t{1} << b.min, int64_t{1} << b.min});
}

Bounds lut_bounds(const std::vector<int64_t>& table) {
  Bounds b{kHigh, kLow};
  for (int64_t v : table) b = {std::min(b.min, v), std::max(b.max, v)};
  return b;
}

}  // namespace

Bounds limits_of(DType dtype) {
  switch (dtype) {
    case DType::Bool: return {0, 1};
    case DType::I8: return {-128, 127};
    case DType::U8: return {0, 255};
    case DType::I16: return {-32768, 32767};
    case DType::U16: return {0, 65535};
    case DType::I32: return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case DType::U32: return {0, std::numeric_limits<uint32_t>::max()};
    default: return kNoBounds;
  }
}

bool fits(Bounds b, DType dtype) {
  const Bounds limits = limits_of(dtype);
  return b.min >= limits.min && b.max <= limits.max;
}

Bounds exact_bounds(Op op, const Arg& arg, std::span<const Bounds> src) {
  const auto of = [&](size_t i) { return src[i]; };
  switch (op) {
    case Op::Const: return {arg.i, arg.i};
    case Op::Var: return {arg.list[0], arg.list[1]};
    case Op::Range: return {0, std::max<int64_t>(0, saturate(static_cast<__int128>(of(0).max) - 1))};
    case Op::Neg: return {saturate(-static_cast<__int128>(of(0).max)), saturate(-static_cast<__int128>(of(0).min))};
    case Op::Add:
      return {saturate(static_cast<__int128>(of(0).min) + of(1).min),
              saturate(static_cast<__int128>(of(0).max) + of(1).max)};
    case Op::Sub:
      return {saturate(static_cast<__int128>(of(0).min) - of(1).max),
              saturate(static_cast<__int128>(of(0).max) - of(1).min)};
    case Op::Mul: return product_bounds(of(0), of(1));
    case Op::Div: return divide_bounds(of(0), of(1));
    case Op::Mod: return modulo_bounds(of(0), of(1));
    case Op::Max: return {std::max(of(0).min, of(1).min), std::max(of(0).max, of(1).max)};
    case Op::Min: return {std::min(of(0).min, of(1).min), std::min(of(0).max, of(1).max)};
    case Op::And: return and_bounds(of(0), of(1));
    case Op::Or:
    case Op::Xor: return or_bounds(of(0), of(1));
    case Op::Shl:
    case Op::Shr: return shift_bounds(op, of(0), of(1));
    case Op::Where: return {std::min(of(1).min, of(2).min), std::max(of(1).max, of(2).max)};
    case Op::Lut: return lut_bounds(arg.list);
    case Op::Cast: return of(0);
    case Op::Load: return arg.i > 0 ? Bounds{0, arg.i} : kNoBounds;
    default: return kNoBounds;
  }
}

Bounds bounds_of(Op op, DType dtype, const Arg& arg, std::span<const Bounds> src) {
  if (!is_int(dtype) && dtype != DType::Bool) return kNoBounds;
  const Bounds exact = exact_bounds(op, arg, src);
  return fits(exact, dtype) ? exact : limits_of(dtype);
}

}  // namespace smelt
