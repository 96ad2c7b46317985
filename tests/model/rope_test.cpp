#include "model/rope.h"

#include <doctest/doctest.h>

#include <cmath>

#include "graph/eval.h"

using namespace smelt;

namespace {

// Values [1, 1, 4] after a rotation by angles [1, 2].
std::vector<double> rotated(RopeOrder order) {
  const std::vector<float> x = {1, 2, 3, 4}, cos = {0.5f, 0.25f}, sin = {2, 3};
  const Tensor in = param(0, DType::F32, {1, 1, 4}, "x");
  const Angles at = {param(1, DType::F32, {1, 2}, "cos"), param(2, DType::F32, {1, 2}, "sin")};
  EvalInputs inputs;
  inputs.buffers[0] = std::as_bytes(std::span(x));
  inputs.buffers[1] = std::as_bytes(std::span(cos));
  inputs.buffers[2] = std::as_bytes(std::span(sin));
  return eval(sink({output(3, rotate(in, at, order))}), inputs).outputs.at(3).values;
}

}  // namespace

TEST_CASE("pairs of neighbours turn, or of one value from each half") {
  CHECK(rotated(RopeOrder::Pairs) == std::vector<double>{0.5 - 4, 1 + 2, 0.75 - 12, 1 + 9});
  CHECK(rotated(RopeOrder::Halves) == std::vector<double>{0.5 - 6, 0.5 - 12, 1.5 + 2, 1 + 6});
}

TEST_CASE("rope tables hold the angles of the plain and of the stretched pairs") {
  const auto plain = rope_tables({.width = 64, .base = 1e6});
  const std::vector<float> cos = plain[0].rows(100), sin = plain[1].rows(100);
  REQUIRE(cos.size() == 3200);
  CHECK(cos[0] == 1);
  CHECK(sin[0] == 0);
  CHECK(cos[99 * 32] == static_cast<float>(std::cos(99.0)));
  CHECK(sin[99 * 32 + 31] == static_cast<float>(std::sin(99 * std::pow(1e6, -62.0 / 64))));

  const RopeParameters yarn = {.width = 32,
                               .base = 1e4,
                               .scaling = RopeScaling::Yarn,
                               .factor = 4,
                               .original_context = 1024,
                               .log_multiplier = 0.0707};
  const std::vector<float> y = rope_tables(yarn)[1].rows(100);  // the ramp lies between pairs 2 and 9 of 16
  CHECK(y[16] == static_cast<float>(std::sin(1.0)));
  CHECK(y[16 + 2] == static_cast<float>(std::sin(std::pow(1e4, -4.0 / 32))));
  CHECK(y[16 + 9] == static_cast<float>(std::sin(std::pow(1e4, -18.0 / 32) / 4)));
  CHECK(y[16 + 15] == static_cast<float>(std::sin(std::pow(1e4, -30.0 / 32) / 4)));
}

TEST_CASE("contexts beyond the original one have divisors of their own, and all a factor") {
  const RopeParameters r = {.width = 4,
                            .base = 100,
                            .original_context = 64,
                            .divisors = {1, 5},
                            .long_divisors = {2, 10},
                            .attention_factor = 1.5};
  const PositionTable sin = rope_tables(r)[1];
  for (const int64_t context : {0, 64}) {
    CHECK(sin.rows(2, context)[2] == static_cast<float>(1.5 * std::sin(1.0)));
    CHECK(sin.rows(2, context)[3] == static_cast<float>(1.5 * std::sin(0.1 / 5)));
  }
  CHECK(sin.rows(2, 65)[2] == static_cast<float>(1.5 * std::sin(1.0 / 2)));
  CHECK(sin.rows(2, 65)[3] == static_cast<float>(1.5 * std::sin(0.1 / 10)));
}

TEST_CASE("what is not rotated keeps its size, whatever the magnitude") {
  const auto tables = rope_tables({.width = 4, .base = 100, .attention_factor = 1.5}, 8);
  CHECK(tables[0].rows(1) == std::vector<float>{1.5f, 1.5f, 1, 1});
  CHECK(tables[1].rows(2)[6] == 0);
}

TEST_CASE("linear scaling divides all angles, divisors each of its pair") {
  const RopeParameters linear = {.width = 4, .base = 100, .scaling = RopeScaling::Linear, .factor = 8};
  const RopeParameters divided = {.width = 4, .base = 100, .divisors = {1, 5}};
  CHECK(rope_tables(linear)[1].rows(2)[2] == static_cast<float>(std::sin(1.0 / 8)));
  CHECK(rope_tables(linear)[1].rows(2)[3] == static_cast<float>(std::sin(0.1 / 8)));
  CHECK(rope_tables(divided)[1].rows(2)[2] == static_cast<float>(std::sin(1.0)));
  CHECK(rope_tables(divided)[1].rows(2)[3] == static_cast<float>(std::sin(0.1 / 5)));
}

TEST_CASE("YaRN makes scores steeper where the file has a log multiplier, else rotated values longer") {
  RopeParameters yarn = {.width = 4, .scaling = RopeScaling::Yarn, .factor = 8, .original_context = 64};
  CHECK(yarn.attention_scale() == 1);
  CHECK(yarn.magnitude() == doctest::Approx(1 + 0.1 * std::log(8.0)));
  CHECK(rope_tables(yarn)[0].rows(1)[0] == static_cast<float>(yarn.magnitude()));
  yarn.log_multiplier = 0.1;
  CHECK(yarn.attention_scale() == doctest::Approx(std::pow(1 + 0.1 * std::log(8.0), 2)));
  CHECK(yarn.magnitude() == 1);
}
