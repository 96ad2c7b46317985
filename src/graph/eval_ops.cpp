#include "graph/eval_ops.h"

#include <algorithm>
#include <cmath>

#include "base/ensure.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

struct Run {
  const Node& node;
  std::span<const double* const> src;
  size_t count;
  double* out;

  template <class F>
  void each(F f) const {
    for (size_t k = 0; k < count; ++k) out[k] = f(src[0][k]);
  }
  template <class F>
  void pairs(F f) const {
    for (size_t k = 0; k < count; ++k) out[k] = f(src[0][k], src[1][k]);
  }
  // The same on integers, wrapped at the node's width.
  template <class F>
  void integers(F f) const {
    for (size_t k = 0; k < count; ++k) {
      auto y = src.size() > 1 ? static_cast<int64_t>(src[1][k]) : 0;
      out[k] = static_cast<double>(wrap(f(static_cast<int64_t>(src[0][k]), y), node.dtype));
    }
  }
};

int64_t wrapping(uint64_t value) { return static_cast<int64_t>(value); }

void convert(const Run& run) {
  DType from = run.node.src[0]->dtype, to = run.node.dtype;
  if (is_float(to)) return run.each([](double x) { return x; });
  if (to == DType::Bool) return run.each([](double x) { return x != 0 ? 1.0 : 0.0; });
  if (!is_float(from)) return run.integers([](int64_t x, int64_t) { return x; });
  run.each([to](double x) {
    double whole = std::trunc(x);
    ENSURE(whole >= static_cast<double>(lowest_int(to)) && whole <= static_cast<double>(highest_int(to)),
           "eval: cast of a float outside the integer's range");
    return whole;
  });
}

void look_up(const Run& run) {
  const std::vector<int64_t>& table = run.node.arg.list;
  run.each([&table](double x) {
    ENSURE(x >= 0 && x < static_cast<double>(table.size()), "eval: lut index beyond its table");
    return static_cast<double>(table[static_cast<size_t>(x)]);
  });
}

void divide(const Run& run) {
  if (is_float(run.node.dtype)) return run.pairs([](double x, double y) { return x / y; });
  run.integers([](int64_t x, int64_t y) {
    ENSURE(y > 0, "eval: integer division by a number that is not positive");
    return floor_div(x, y);
  });
}

void modulo(const Run& run) {
  run.integers([](int64_t x, int64_t y) {
    ENSURE(y > 0, "eval: remainder by a number that is not positive");
    return floor_mod(x, y);
  });
}

void multiply(const Run& run) {
  if (is_float(run.node.dtype)) return run.pairs([](double x, double y) { return x * y; });
  run.integers([](int64_t x, int64_t y) { return wrapping(static_cast<uint64_t>(x) * static_cast<uint64_t>(y)); });
}

void add(const Run& run, double sign) {
  run.pairs([sign](double x, double y) { return x + sign * y; });
  if (is_float(run.node.dtype)) return;
  for (size_t k = 0; k < run.count; ++k)
    run.out[k] = static_cast<double>(wrap(static_cast<int64_t>(run.out[k]), run.node.dtype));
}

void shift(const Run& run) {
  int bits = 8 * size_of(run.node.dtype);
  bool left = run.node.op == Op::Shl;
  run.integers([bits, left](int64_t x, int64_t y) {
    ENSURE(y >= 0 && y < bits, "eval: shift by the width or more");
    return left ? wrapping(static_cast<uint64_t>(x) << y) : x >> y;
  });
}

void complement(const Run& run) {
  if (run.node.dtype == DType::Bool) return run.each([](double x) { return x == 0 ? 1.0 : 0.0; });
  run.integers([](int64_t x, int64_t) { return ~x; });
}

void choose(const Run& run) {
  for (size_t k = 0; k < run.count; ++k) run.out[k] = run.src[0][k] != 0 ? run.src[1][k] : run.src[2][k];
}

void negate(const Run& run) {
  if (is_float(run.node.dtype)) return run.each([](double x) { return -x; });
  run.integers([](int64_t x, int64_t) { return wrapping(0 - static_cast<uint64_t>(x)); });
}

void apply(const Run& run) {
  switch (run.node.op) {
    case Op::Place: return run.each([](double x) { return x; });
    case Op::Neg: return negate(run);
    case Op::Not: return complement(run);
    case Op::Exp2: return run.each([](double x) { return std::exp2(x); });
    case Op::Log2: return run.each([](double x) { return std::log2(x); });
    case Op::Sqrt: return run.each([](double x) { return std::sqrt(x); });
    case Op::Floor: return run.each([](double x) { return std::floor(x); });
    case Op::Cast: return convert(run);
    case Op::Lut: return look_up(run);
    case Op::Add: return add(run, 1);
    case Op::Sub: return add(run, -1);
    case Op::Mul: return multiply(run);
    case Op::Div: return divide(run);
    case Op::Mod: return modulo(run);
    case Op::Max: return run.pairs([](double x, double y) { return x > y ? x : y; });
    case Op::Min: return run.pairs([](double x, double y) { return x < y ? x : y; });
    case Op::And: return run.integers([](int64_t x, int64_t y) { return x & y; });
    case Op::Or: return run.integers([](int64_t x, int64_t y) { return x | y; });
    case Op::Xor: return run.integers([](int64_t x, int64_t y) { return x ^ y; });
    case Op::Shl:
    case Op::Shr: return shift(run);
    case Op::Lt: return run.pairs([](double x, double y) { return x < y ? 1.0 : 0.0; });
    case Op::Eq: return run.pairs([](double x, double y) { return x == y ? 1.0 : 0.0; });
    case Op::Where: return choose(run);
    default: ENSURE(false, "eval: " + std::string(name_of(run.node.op)) + " is not elementwise");
  }
}

bool is_rounded(DType dtype, bool round_f32) {
  return dtype == DType::F16 || dtype == DType::BF16 || (dtype == DType::F32 && round_f32);
}

}  // namespace

void apply_to_run(const Node& node, std::span<const double* const> src, size_t count, bool round_f32, double* out) {
  apply({node, src, count, out});
  if (!is_rounded(node.dtype, round_f32)) return;
  for (size_t k = 0; k < count; ++k) out[k] = round_to(out[k], node.dtype);
}

}  // namespace smelt
