// Exp2 and Log2 against the C library in double precision.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/program_builder.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

namespace {

std::vector<float> computed(Op op, const std::vector<float>& in, const CpuTarget& target = host_target()) {
  REQUIRE(in.size() % 16 == 0);
  ProgramBuilder p("math", 2);
  int n = p.symbol("blocks_of_16"), loop = p.loop(p.integer(0), n), offset = p.mul(loop, p.integer(64));
  p.store(p.buffer(1), offset, p.op(op, {p.load(DType::F32, 16, p.buffer(0), offset)}));
  p.end(loop);
  Buffers buffers{bytes_of(in), Bytes(in.size() * 4)};
  return values_of<float>(compiled(p.program(), buffers, {static_cast<int64_t>(in.size() / 16)}, 1, target)[1]);
}

// Bit patterns evenly over all floats, NaNs left out.
std::vector<float> sweep(uint32_t step) {
  std::vector<float> floats;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step)
    if (auto x = std::bit_cast<float>(static_cast<uint32_t>(bits)); !std::isnan(x)) floats.push_back(x);
  while (floats.size() % 16) floats.push_back(1);
  return floats;
}

// Evenly over an interval, where the exponent does not change much and every digit counts.
std::vector<float> grid(double begin, double end) {
  constexpr int kPoints = 1 << 19;
  std::vector<float> floats;
  for (int i = 0; i < kPoints; ++i) floats.push_back(static_cast<float>(begin + (end - begin) * i / kPoints));
  return floats;
}

double ulps(float got, double expected) {
  auto nearest = static_cast<float>(expected);
  float size = std::fabs(nearest);
  return std::fabs(got - expected) / (std::nextafterf(size, INFINITY) - size);
}

}  // namespace

TEST_CASE("exp2 is within 1.25 ulps wherever its result is a normal number") {
  for (const CpuTarget& target : runnable_targets()) {
    double worst = 0;
    int wrong = 0;
    for (const std::vector<float>& in : {sweep(8209), grid(-126, 128), grid(-1, 1)}) {
      std::vector<float> out = computed(Op::Exp2, in, target);
      for (size_t i = 0; i < in.size(); ++i) {
        double expected = std::exp2(static_cast<double>(in[i]));
        if (in[i] >= 128)
          wrong += !(out[i] == INFINITY);
        else if (in[i] < -126)
          wrong += !(out[i] == 0 || std::fabs(out[i] - expected) < 1e-44);
        else
          worst = std::max(worst, ulps(out[i], expected));
      }
    }
    CAPTURE(target.cpu);
    CHECK(wrong == 0);
    CHECK(worst < 1.25);
  }
}

TEST_CASE("log2 is within 2.5 ulps, subnormal arguments included") {
  for (const CpuTarget& target : runnable_targets()) {
    double worst = 0;
    int wrong = 0;
    for (const std::vector<float>& in : {sweep(8209), grid(0.5, 2), grid(0.99, 1.01), grid(0, 1e-37)}) {
      std::vector<float> out = computed(Op::Log2, in, target);
      for (size_t i = 0; i < in.size(); ++i) {
        double expected = std::log2(static_cast<double>(in[i]));
        if (in[i] < 0)
          wrong += !std::isnan(out[i]);
        else if (std::isinf(expected) || expected == 0)
          wrong += !(out[i] == expected);
        else
          worst = std::max(worst, ulps(out[i], expected));
      }
    }
    CAPTURE(target.cpu);
    CHECK(wrong == 0);
    CHECK(worst < 2.5);
  }
}

TEST_CASE("exp2 and log2 give NaN for NaN and the limits for infinities") {
  float inf = INFINITY, nan = std::nanf("5");
  std::vector<float> in{inf, -inf, nan, -nan, 0, -0.0F, 1, 128, -150, 127, -126, 3.5F, 1e30F, -1e30F, 0.25F, 2};
  std::vector<float> e = computed(Op::Exp2, in), l = computed(Op::Log2, in);
  CHECK(e[0] == inf);
  CHECK(e[1] == 0);
  CHECK(std::isnan(e[2]));
  CHECK(std::isnan(e[3]));
  CHECK(e[4] == 1);
  CHECK(e[5] == 1);
  CHECK(e[7] == inf);
  CHECK(e[8] == 0);
  CHECK(e[9] == std::ldexp(1.0F, 127));
  CHECK(e[10] == std::ldexp(1.0F, -126));
  CHECK(e[12] == inf);
  CHECK(e[13] == 0);
  CHECK(l[0] == inf);
  CHECK(std::isnan(l[1]));
  CHECK(std::isnan(l[2]));
  CHECK(l[4] == -inf);
  CHECK(l[5] == -inf);
  CHECK(l[6] == 0);
  CHECK(l[14] == -2);
  CHECK(l[15] == 1);
}
