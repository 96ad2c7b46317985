#include "codegen/known_multiples.h"

#include <doctest/doctest.h>

#include <limits>

#include "support/program_builder.h"

using namespace smelt;
using namespace smelt::test;

TEST_CASE("constants are multiples of their lowest bit, the least integer too") {
  for (const auto& [value, multiple] : {std::pair<int64_t, int64_t>{1, 1},
                                        {-12, 4},
                                        {48, 16},
                                        {-64, 64},
                                        {1024, 64},
                                        {0, 64},
                                        {std::numeric_limits<int64_t>::min(), 64},
                                        {std::numeric_limits<int64_t>::max(), 1}}) {
    ProgramBuilder b("constants", 0);
    b.integer(value);
    CAPTURE(value);
    CHECK(known_multiples(b.program()) == std::vector<int64_t>{multiple});
  }
}

TEST_CASE("multiples follow arithmetic") {
  ProgramBuilder b("arithmetic", 0);
  const int n = b.symbol("n"), eight = b.integer(8), twelve = b.integer(12);
  const int product = b.mul(n, eight), sum = b.add2(product, twelve), half = b.op(Op::Div, {product, b.integer(2)});
  const auto known = known_multiples(b.program());
  const auto of = [&](int i) { return known[static_cast<size_t>(i)]; };
  CHECK(of(n) == 1);
  CHECK(of(product) == 8);
  CHECK(of(sum) == 4);
  CHECK(of(half) == 4);
}
