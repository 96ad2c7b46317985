// F16 and BF16, bit by bit, over all there are.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>

#include "graph/scalar_math.h"
#include "support/program_builder.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

namespace {

// out[i] = cast(in[i])
Program cast_all(DType from, DType to) {
  ProgramBuilder p("cast_all", 2);
  int n = p.symbol("blocks_of_16"), loop = p.loop(p.integer(0), n), first = p.mul(loop, p.integer(16));
  int x = p.load(from, 16, p.buffer(0), p.mul(first, p.integer(size_of(from))));
  p.store(p.buffer(1), p.mul(first, p.integer(size_of(to))), p.cast(x, to));
  p.end(loop);
  return p.program();
}

template <class To, class From>
std::vector<To> cast_by(const CpuTarget& target, const std::vector<From>& in, DType from, DType to) {
  REQUIRE(in.size() % 16 == 0);
  Buffers buffers{bytes_of(in), Bytes(in.size() * sizeof(To))};
  return values_of<To>(compiled(cast_all(from, to), buffers, {static_cast<int64_t>(in.size() / 16)}, 1, target)[1]);
}

std::vector<uint16_t> all_bits() {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  return bits;
}

// Every small float, the middle to its neighbour, what lies just beside both, and random bits.
std::vector<float> hard_floats(DType dtype) {
  std::vector<float> floats;
  for (uint32_t i = 0; i < 65536; ++i) {
    float here = static_cast<float>(from_bits(i, dtype).f), next = static_cast<float>(from_bits(i + 1, dtype).f);
    float middle = static_cast<float>((static_cast<double>(here) + next) / 2);
    for (float x : {here, middle})
      for (float y : {x, std::nextafterf(x, INFINITY), std::nextafterf(x, -INFINITY)}) floats.push_back(y);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  while (floats.size() % 16) floats.push_back(0);
  return floats;
}

int count_wrong_widened(const CpuTarget& target, DType dtype) {
  std::vector<uint16_t> in = all_bits();
  std::vector<float> out = cast_by<float>(target, in, dtype, DType::F32);
  int wrong = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    auto expected = static_cast<float>(from_bits(in[i], dtype).f);
    bool same = std::isnan(expected) ? std::isnan(out[i])
                                     : std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(out[i]);
    wrong += !same;
  }
  return wrong;
}

template <class From>
int count_wrong_narrowed(const CpuTarget& target, const std::vector<From>& in, DType from, DType dtype) {
  std::vector<uint16_t> out = cast_by<uint16_t>(target, in, from, dtype);
  int wrong = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    bool same = std::isnan(in[i]) ? std::isnan(from_bits(out[i], dtype).f)
                                  : to_bits({.f = static_cast<double>(in[i])}, dtype) == out[i];
    wrong += !same;
  }
  return wrong;
}

// Halfway between two small floats and off it by less than a float can show.
std::vector<double> hard_doubles(DType dtype) {
  std::vector<double> doubles;
  for (uint32_t i = 0; i < 65536; i += 7) {
    double here = from_bits(i, dtype).f, next = from_bits(i + 1, dtype).f, middle = (here + next) / 2;
    for (double x : {here, middle})
      for (double y : {x, std::nextafter(x, INFINITY), std::nextafter(x, -INFINITY)}) doubles.push_back(y);
  }
  while (doubles.size() % 16) doubles.push_back(0);
  return doubles;
}

}  // namespace

TEST_CASE("all 65536 halves and bfloats become the float they stand for") {
  for (const CpuTarget& target : runnable_targets()) {
    CAPTURE(target.cpu);
    CHECK(count_wrong_widened(target, DType::F16) == 0);
    CHECK(count_wrong_widened(target, DType::BF16) == 0);
  }
}

TEST_CASE("floats become the nearest half and bfloat, ties to even, NaN stays NaN") {
  for (const CpuTarget& target : runnable_targets()) {
    CAPTURE(target.cpu);
    CHECK(count_wrong_narrowed(target, hard_floats(DType::F16), DType::F32, DType::F16) == 0);
    CHECK(count_wrong_narrowed(target, hard_floats(DType::BF16), DType::F32, DType::BF16) == 0);
  }
}

TEST_CASE("doubles are rounded once on their way to a half") {
  for (const CpuTarget& target : runnable_targets()) {
    CAPTURE(target.cpu);
    CHECK(count_wrong_narrowed(target, hard_doubles(DType::F16), DType::F64, DType::F16) == 0);
    CHECK(count_wrong_narrowed(target, hard_doubles(DType::BF16), DType::F64, DType::BF16) == 0);
  }
}
