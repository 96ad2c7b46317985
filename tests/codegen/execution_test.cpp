// What programs are said to do.
#include "codegen/execution.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/kernel_tree.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// With options for its only nest.
Execution execution(Ref tree, const char* opts, int workers = 1) {
  REQUIRE(tree->src.size() == 1);
  const auto parsed = parse_opts(opts);
  REQUIRE(parsed.ok());
  return execution_of(generate({.tree = tree, .name = "k", .opts = KernelOpts{*parsed}}).program, {}, workers);
}

Ref matrix_vector(int64_t columns = 256) {
  return kernel_tree(linear(input(0, {1, columns}), input(1, {512, columns})));
}

constexpr int64_t kOdd = 255;  // columns of which no partial sums are made

}  // namespace

TEST_CASE("loads count as often as loops repeat them, by buffer") {
  const Execution e = execution_of(generate({.tree = matrix_vector(), .name = "k"}).program);
  CHECK(e.loads.vectors > 0);
  CHECK(e.loads.total() >= e.loads.vectors);
  double most = 0;
  for (const Loads& loads : e.of_argument) most = std::max(most, loads.bytes);
  CHECK(most >= 512 * 256 * 4);  // every weight is loaded at least once, by some worker
  const Execution plain = execution(matrix_vector(), "");
  CHECK(plain.loads.scalars == plain.loads.total());
  CHECK(plain.loads.scalars >= 2 * 512 * 256);
}

TEST_CASE("lanes along the wrong axis gather") {
  const Execution e = execution(matrix_vector(), "local(o1,8)");
  CHECK(e.loads.gathers == 512 / 8 * 256);
}

TEST_CASE("a sum one by one is serial, sums side by side are not") {
  const Execution one = execution(matrix_vector(kOdd), "");
  CHECK(one.serial_share == 1);
  CHECK(one.serial_cycles == 4);
  CHECK(one.serial_instructions < 8);
  CHECK(execution(matrix_vector(), "local(o1,8) upcast(o1.0,8)").serial_share == 0);
}

TEST_CASE("what every worker computes for itself counts for each, what they share counts once") {
  const double needed = cost_of(matrix_vector(kOdd)).float_ops;
  CHECK(execution(matrix_vector(kOdd), "task(o1)", 4).float_ops == doctest::Approx(needed));
  CHECK(execution(matrix_vector(kOdd), "", 1).float_ops == doctest::Approx(needed));
  // A norm on chip, made by each worker from all of its input.
  const Tensor x = input(0, {1, 256});
  const Tensor normed = x * unsqueeze(scalar(1) / sqrt(sum(x * x, -1) + 1e-5), 1);
  const CodegenResult made = generate({.tree = kernel_tree(linear(normed, input(1, {64, 256}))), .name = "k"});
  const double alone = execution_of(made.program, {}, 1).float_ops;
  const double four = execution_of(made.program, {}, 4).float_ops;
  CHECK(four > alone + 3 * 256);
  CHECK(four < 2 * alone);
}
