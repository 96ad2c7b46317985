// The order in which matrix units add up.
#include "graph/matrix_sum.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

using namespace smelt;

namespace {

uint32_t pair(float even, float odd, DType dtype = DType::BF16) {
  return static_cast<uint32_t>(to_bits({.f = even}, dtype) | to_bits({.f = odd}, dtype) << 16);
}

constexpr MatrixShape kInMemory{.m = 1, .n = 1, .k = 4, .elements = DType::BF16};

double sum_of(const MatrixShape& shape, double so_far, std::vector<uint32_t> a, std::vector<uint32_t> b) {
  return matrix_sum(shape, {.f = so_far}, a, b).f;
}

}  // namespace

TEST_CASE("bytes are summed as words are") {
  const MatrixShape shape{.m = 1, .n = 1, .k = 8};
  const std::vector<uint32_t> a{0x01fe7f80, 0xffffffff}, b{0x05ff02ff, 0x00010203};
  CHECK(matrix_sum(shape, {.i = 3}, a, b).i == dot4(dot4(3, b[0], a[0]).i, b[1], a[1]).i);
  MatrixShape other = shape;
  other.a_is_signed = false;
  CHECK(matrix_sum(other, {.i = 3}, a, b).i == dot4(dot4(3, a[0], b[0]).i, a[1], b[1]).i);
}

TEST_CASE("halves in memory: even and odd places by themselves, then together, then with what was there") {
  // One after the other 2^24 + 1 + 1 stays 2^24; odd places make 2 of them first.
  const uint32_t ones = pair(1, 1);
  CHECK(sum_of(kInMemory, 0, {pair(0x1p24F, 1), pair(0, 1)}, {ones, ones}) == 0x1p24 + 2);
  CHECK(sum_of(kInMemory, 0,
               {
                   pair(0x1p24F, 0),
                   pair(1, 0),
               },
               {ones, ones}) == 0x1p24);
  CHECK(sum_of(kInMemory, 0x1p24, {pair(1, 0), pair(0, 0)}, {ones, ones}) == 0x1p24);
  CHECK(sum_of(kInMemory, 0x1p24, {pair(1, 1), pair(0, 0)}, {ones, ones}) == 0x1p24 + 2);
}

TEST_CASE("longer products are steps of 16 words") {
  MatrixShape shape = kInMemory;
  shape.k = 2 * kHalvesOfStep;
  std::vector<uint32_t> a(32, pair(0, 0)), b(32, pair(1, 1));
  a[0] = pair(0x1p24F, 0), a[15] = pair(1, 0);  // of one step, and one chain
  CHECK(sum_of(shape, 0, a, b) == 0x1p24);
  a[15] = pair(0, 0), a[16] = pair(1, 1);  // of another one
  CHECK(sum_of(shape, 0, a, b) == 0x1p24 + 2);
}

TEST_CASE("numbers below the normal ones are zero in memory") {
  CHECK(sum_of(kInMemory, 0, {pair(0x1p-70F, 0), 0}, {pair(0x1p-70F, 0), 0}) == 0);
  CHECK(sum_of(kInMemory, 0x1p-130, {0, 0}, {0, 0}) == 0);
  CHECK(sum_of(kInMemory, 0, {pair(0x1p-130F, 0), 0}, {pair(0x1p20F, 0), 0}) == 0);
}

TEST_CASE("halves in fragments are rounded once") {
  for (DType elements : {DType::BF16, DType::F16}) {
    const MatrixShape shape{.m = 16, .n = 8, .k = 16, .elements = elements, .in_fragments = true};
    const uint32_t ones = pair(1, 1, elements);
    CHECK(sum_of(shape, 0x1p24, {pair(1, 0, elements), pair(1, 0, elements)}, {ones, ones}) == 0x1p24 + 2);
    CHECK(sum_of(shape, 0x1p24, {pair(1, 0, elements), pair(-0.5F, 0, elements)}, {ones, ones}) == 0x1p24);
  }
}
