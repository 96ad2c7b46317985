#include "graph/check_rewrite.h"
#include "graph/index_sum.h"

using namespace smelt;

namespace {
const Ref i = range(0, 10), j = range(1, 256), k = range(2, 32), l = range(3, 4);
const Ref S = variable("S", 1, 4096), T = variable("T", 1, 4096), v = variable("v", -100, 100),
          n = variable("n", 0, 4096);
const Ref s = range(4, S), t = range(5, T);
}  // namespace

TEST_CASE("sums are collected in one order with the constant last") {
  CHECK_SIMPLE(i + 0, "r0");
  CHECK_SIMPLE((i + 3) + 4, "r0 + 7");
  CHECK_SIMPLE(constant(3) + i, "r0 + 3");
  CHECK_SIMPLE(i * 4 + 3 + i, "r0*5 + 3");
  CHECK_SIMPLE((i + 3) * 4, "r0*4 + 12");
  CHECK_SIMPLE(i - i, "0");
  CHECK_SIMPLE(i * 2 - j - i * 2, "r1*-1");
  CHECK_SIMPLIFY(j + i * 256, i * 256 + j);
  CHECK_SIMPLIFY((i + j) + (k + l), (l + i) + (k + j));
  CHECK_SIMPLIFY((i * 4 + l) * S, l * S + S * i * 4);
  CHECK_SIMPLIFY(binary(Op::Shl, i, constant(5)), i * 32);
}

TEST_CASE("a sum of sizes stays one factor") {
  CHECK_SIMPLIFY((i * (S + T) + s) / (S + T), i);
  CHECK_SIMPLIFY(((i * (S + T)) * 64 + j % 64) / ((S + T) * 64), i);
}

TEST_CASE("division splits off multiples of the divisor") {
  CHECK_SIMPLE((i * 256 + j) / 256, "r0");
  CHECK_SIMPLE((v * 256 + j) / 256, "v");
  CHECK_SIMPLE((v * 256 + j) % 256, "r1");
  CHECK_SIMPLE(j / 256, "0");
  CHECK_SIMPLE(j % 256, "r1");
  CHECK_SIMPLE((i * 4 + j) / 4, "r0 + r1/4");
  CHECK_SIMPLE((i * 4 + j) % 4, "r1%4");
  CHECK_SIMPLE((i * 32 + k) / 64, "r0/2");
  CHECK_SIMPLE((i * 32 + k) % 64, "r0%2*32 + r2");
  CHECK_SIMPLE((i * 6 + l) / 4, "(r0*6 + r3)/4");
  CHECK_SIMPLE((i * 6 + l % 2) / 4, "r0*3/2");
  CHECK_SIMPLE((l - 4) / 4, "-1");
  CHECK_SIMPLE((l + 4) % 4, "r3");
}

TEST_CASE("divisions and remainders of each other fold") {
  CHECK_SIMPLE(v / 4 / 8, "v/32");
  CHECK_SIMPLE(v % 12 % 4, "v%4");
  CHECK_SIMPLE((v % 12) / 4, "v/4%3");
  CHECK_SIMPLE((v / 4) * 4 + v % 4, "v");
  CHECK_SIMPLE((v / 4) * 20 + v % 4 * 5, "v*5");
  CHECK_SIMPLE(v / 12 * 12 + v / 4 % 3 * 4 + v % 4, "v");
  CHECK_SIMPLE(v / 4 % 3 * 4 + v % 4, "v%12");
  CHECK_SIMPLE(v / 8 % 3 * 20 + v / 4 % 2 * 10, "v/4%6*10");
  CHECK_SIMPLE(v / 4 % 3 * 8 + v % 4, "v/4%3*8 + v%4");
  CHECK_SIMPLE((v % 12 * 5 + i) % 4, "(v + r0)%4");
}

TEST_CASE("symbolic sizes divide away") {
  CHECK_SIMPLE((i * S + s) / S, "r0");
  CHECK_SIMPLE((i * S + s) % S, "r4");
  CHECK_SIMPLE((i * S * 4 + l * S + s) / (S * 4), "r0");
  CHECK_SIMPLE((i * S * 4 + l * S + s) / S, "r0*4 + r3");
  CHECK_SIMPLE((i * S + s) / (S * 4), "r0/4");
  CHECK_SIMPLE((v % (S * 4)) / S, "v/S%4");
  CHECK_SIMPLE((t * S + s) / S, "r5");
  CHECK_SIMPLE((v / S) * S + v % S, "v");
  CHECK_SIMPLE((i * S * T + t * S + s) / (T * S), "r0");
  CHECK_SIMPLE((i * 64 + k) / 64, "r0");
}

TEST_CASE("comparisons are decided by bounds") {
  CHECK_SIMPLE(less(i, 10), "1");
  CHECK_SIMPLE(less(j, i), "r1 < r0");
  CHECK_SIMPLE(less(j + 10, i), "0");
  CHECK_SIMPLE(less(s, S), "1");
  CHECK_SIMPLE(less(l * S + s, S * 4), "1");
  CHECK_SIMPLE(less(i * 32 + k, 64), "r0 < 2");
  CHECK_SIMPLE(less(i * 4 + 3, n), "r0*4 < n - 3");
  CHECK_SIMPLE(less(i * 32 + k, n * 32), "r0 < n");
  CHECK_SIMPLE(equal(i * 4 + 1, j * 2), "0");
  CHECK_SIMPLE(equal(i + 10, l), "0");
  CHECK_SIMPLE(equal(i + j, j + i), "1");
  CHECK_SIMPLE(binary(Op::Min, s, S), "r4");
  CHECK_SIMPLE(binary(Op::Max, i, constant(9)), "9");
  CHECK_SIMPLE(binary(Op::Min, i, constant(9)), "r0");
}

TEST_CASE("masks and shifts of indices meet the rules of sums") {
  CHECK_SIMPLE(binary(Op::Shr, i * 256 + j, constant(8)), "r0");
  CHECK_SIMPLE(binary(Op::And, i * 256 + j, constant(255)), "r1");
}

TEST_CASE("substitution unrolls a range") {
  Ref expr = simplify((i * 256 + j) * 18 + l * 4);
  CHECK(to_infix(substitute(expr, {{l, constant(3)}})) == "r0*4608 + r1*18 + 12");
  CHECK(substitute(expr, {{i, constant(1)}, {j, constant(2)}, {l, constant(0)}}) == constant(4644));
  CHECK(substitute(less(s, n), {{n, S}}) == truth(true));
  CHECK(to_infix(substitute(s, {{S, constant(8)}})->src[0]) == "8");
}

TEST_CASE("the stride of a linear expression is known") {
  Ref expr = simplify((i * 256 + j) * 18 + v / 4);
  CHECK(stride(expr, i) == 4608);
  CHECK(stride(expr, j) == 18);
  CHECK(stride(expr, k) == 0);
  CHECK(stride(simplify(j / 2), j) == std::nullopt);
  CHECK(stride(simplify(j * S), j) == std::nullopt);
  CHECK(depends_on(expr, v));
  CHECK_FALSE(depends_on(expr, k));
  CHECK(ranges_of(expr).size() == 2);
}

TEST_CASE("index sums read and write the same node") {
  Ref expr = simplify(i * 256 + j * S + (S + T) * l + 7);
  CHECK(to_node(*index_sum(expr)) == expr);
}
