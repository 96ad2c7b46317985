// What matrix units add up.
#include "graph/matrix_sum.h"

#include <doctest/doctest.h>

#include "graph/scalar_math.h"

using namespace smelt;

TEST_CASE("bytes are summed as words are") {
  const MatrixShape shape{.m = 1, .n = 1, .k = 8};
  const std::vector<uint32_t> a{0x01fe7f80, 0xffffffff}, b{0x05ff02ff, 0x00010203};
  CHECK(matrix_sum(shape, 3, a, b) == dot4(dot4(3, b[0], a[0]).i, b[1], a[1]).i);
  MatrixShape other = shape;
  other.a_is_signed = false;
  CHECK(matrix_sum(other, 3, a, b) == dot4(dot4(3, a[0], b[0]).i, a[1], b[1]).i);
}
