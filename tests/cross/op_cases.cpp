#include <bit>
#include <cmath>

#include "cross/cases.h"
#include "support/op_programs.h"

namespace smelt::cross {

using namespace smelt::test;

namespace {

// Bits that differ only where render/llvm.h says so.
constexpr Agreement kExp2{.dtype = DType::F32, .ulps = 2}, kLog2{.dtype = DType::F32, .ulps = 3};

Agreement bits_of(DType dtype) { return {.dtype = dtype}; }

void add_elementwise(std::vector<Case>& cases) {
  for (Op op : kElementwise)
    for (DType dtype : kNumbers)
      if (takes(op, dtype))
        for (int lanes : {1, 8}) {
          const std::string name =
              std::string(name_of(op)) + " " + std::string(name_of(dtype)) + ", " + std::to_string(lanes) + " lanes";
          const bool is_bool = op == Op::Lt || op == Op::Eq;
          std::vector<Agreement> agreements(static_cast<size_t>(arity_of(op) + 1));
          if (!is_bool) agreements.back() = bits_of(dtype);
          cases.push_back(
              evaluated_case(name, elementwise(op, dtype, lanes, arity_of(op)), buffers_of(op, dtype), agreements));
        }
}

void add_casts(std::vector<Case>& cases) {
  for (DType from : kNumbers) {
    std::vector<Agreement> agreements{bits_of(from)};
    for (DType to : kNumbers) agreements.push_back(bits_of(to));
    cases.push_back(
        evaluated_case("casts of " + std::string(name_of(from)), casts(from), buffers_of_casts(from), agreements));
  }
}

// out[i] = op(in[i]) of one dtype to another, 16 at a time.
template <class Step>
Program mapped(const char* name, DType from, DType to, size_t count, Step step) {
  ProgramBuilder p(name, 2);
  const int loop = p.loop(static_cast<int64_t>(count) / 16), first = p.mul(loop, p.integer(16));
  const int x = p.load(from, 16, p.buffer(0), p.mul(first, p.integer(size_of(from))));
  p.store(p.buffer(1), p.mul(first, p.integer(size_of(to))), step(p, x));
  p.end(loop);
  return p.program();
}

template <class T>
Bytes bytes_from(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

// Every small float, what is in the middle between it and the next, and what lies just beside both.
std::vector<float> hard_floats(DType dtype) {
  std::vector<float> floats;
  for (uint32_t bits = 0; bits < 65536; bits += 7) {
    const double here = from_bits(bits, dtype).f, next = from_bits(bits + 1, dtype).f;
    for (float x : {static_cast<float>(here), static_cast<float>((here + next) / 2)})
      for (float y : {x, std::nextafterf(x, INFINITY), std::nextafterf(x, -INFINITY)}) floats.push_back(y);
  }
  while (floats.size() % 16) floats.push_back(0);
  return floats;
}

void add_small_floats(std::vector<Case>& cases) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (DType dtype : {DType::F16, DType::BF16}) {
    const std::string name(name_of(dtype));
    cases.push_back(evaluated_case(
        "all of " + name + " to f32",
        mapped("widen", dtype, DType::F32, all.size(), [](auto& p, int x) { return p.cast(x, DType::F32); }),
        {bytes_from(all), Bytes(4 * all.size())}, {bits_of(dtype), bits_of(DType::F32)}));
    const std::vector<float> hard = hard_floats(dtype);
    cases.push_back(evaluated_case(
        "f32 to " + name,
        mapped("narrow", DType::F32, dtype, hard.size(), [&](auto& p, int x) { return p.cast(x, dtype); }),
        {bytes_from(hard), Bytes(2 * hard.size())}, {bits_of(DType::F32), bits_of(dtype)}));
  }
}

// Evenly over the interval, the ends included.
std::vector<float> grid(double begin, double end) {
  std::vector<float> floats;
  for (int i = 0; i < 4096; ++i) floats.push_back(static_cast<float>(begin + (end - begin) * i / 4095));
  return floats;
}

void add_math(std::vector<Case>& cases) {
  const float inf = INFINITY;
  const std::vector<float> special{inf,  -inf, std::nanf(""), 0,     -0.0F,  1,     128, 127,
                                   -126, 2,    3.5F,          1e30F, -1e30F, 0.25F, 150, -200};
  const auto add = [&](Op op, const char* name, Agreement agreement, std::vector<float> in) {
    in.insert(in.end(), special.begin(), special.end());
    cases.push_back(evaluated_case(
        name, mapped("math", DType::F32, DType::F32, in.size(), [&](auto& p, int x) { return p.op(op, {x}); }),
        {bytes_from(in), Bytes(4 * in.size())}, {bits_of(DType::F32), agreement}));
  };
  add(Op::Exp2, "exp2 from -126 to 128", kExp2, grid(-126, 127.99));
  add(Op::Exp2, "exp2 near 0", kExp2, grid(-1, 1));
  add(Op::Log2, "log2 near 1", kLog2, grid(0.5, 2));
  add(Op::Log2, "log2 of large numbers", kLog2, grid(1e3, 1e38));
  add(Op::Log2, "log2 of subnormal numbers", kLog2, grid(0, 1e-37));
}

void add_lane_reductions(std::vector<Case>& cases) {
  for (DType dtype : {DType::I32, DType::F32, DType::I64})
    for (Op op : {Op::ReduceSum, Op::ReduceMax})
      for (int lanes : {1, 2, 3, 4, 7, 12, 16, 32}) {
        ProgramBuilder p("lanes", 2);
        p.store(p.buffer(1), p.integer(0), p.lane_reduce(op, p.load(dtype, lanes, p.buffer(0), p.integer(0))));
        cases.push_back(evaluated_case(
            std::string(name_of(op)) + " " + std::string(name_of(dtype)) + " over " + std::to_string(lanes) + " lanes",
            p.program(), {test::random_bytes(dtype, 5), Bytes(8)}, {bits_of(dtype), bits_of(dtype)}));
      }
}

}  // namespace

std::vector<Case> op_cases() {
  std::vector<Case> cases;
  add_elementwise(cases);
  add_casts(cases);
  add_small_floats(cases);
  add_math(cases);
  add_lane_reductions(cases);
  return cases;
}

}  // namespace smelt::cross
