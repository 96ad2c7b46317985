#include "schedule/topk_by_rank.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "graph/eval.h"
#include "graph/tensor.h"

using namespace smelt;

namespace {

const Machine kThreads{.parallelism = Parallelism::Threads, .warp_threads = 32};

std::vector<double> values(Ref root, const std::vector<float>& x) {
  return eval(root, {.buffers = {{0, std::as_bytes(std::span(x))}}}).value.values;
}

bool has_topk(Ref root) {
  const Refs nodes = toposort(root);
  return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::TopK; });
}

}  // namespace

TEST_CASE("ranks give the same elements as a walk through the row, ties by lower index") {
  const Ref walk = top_k(param(0, DType::F32, {3, 16}, "x"), 4).ref(), ranks = topk_by_rank(walk, kThreads);
  REQUIRE(!has_topk(ranks));
  std::mt19937 rng(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> x(3 * 16);
    for (float& v : x) v = static_cast<float>(rng() % 8) - 4;
    CHECK(values(ranks, x) == values(walk, x));
  }
}

TEST_CASE("what is no number is chosen last, and every place has an element of its own") {
  const Ref ranks = topk_by_rank(top_k(param(0, DType::F32, {1, 4}, "x"), 4).ref(), kThreads);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(values(ranks, {nan, 2, nan, 3}) == std::vector<double>{3, 1, 0, 2});
}

TEST_CASE("vectors keep their walk, and so do long rows; rows of unknown number do not") {
  const Dim n = variable("n", 1, 8);
  CHECK(has_topk(topk_by_rank(top_k(param(0, DType::F32, {3, 16}, "x"), 4).ref(), Machine{})));
  CHECK(has_topk(topk_by_rank(top_k(param(0, DType::F32, {n, 2048}, "x"), 4).ref(), kThreads)));
  CHECK(!has_topk(topk_by_rank(top_k(param(0, DType::F32, {n, 16}, "x"), 4).ref(), kThreads)));
}
