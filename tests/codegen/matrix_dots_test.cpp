// Sums of bytes of several rows become products of small matrices, where options say so and the machine has them.
#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/instruction_views.h"
#include "codegen/matrix_cost.h"
#include "codegen/matrix_rows.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

size_t products_in(const Program& program) {
  return static_cast<size_t>(std::count_if(program.code.begin(), program.code.end(),
                                           [](const Instruction& x) { return x.kind == Inst::MatrixDot; }));
}

JudgedKernel product(int64_t tokens, int64_t words) {
  return kernel_of(sink({output(9, grouped_product(tokens, 32, 3, words))}));
}

const Machine kWithMatrices = *known_machine("sapphire-rapids");

KernelOpts chosen(const JudgedKernel& k, const Machine& machine) {
  return generate({.tree = k.tree, .name = "kernel", .machine = machine}).opts;
}

}  // namespace

TEST_CASE("prompts take products of matrices, on machines that have them") {
  for (int64_t words : {4, 8, 16}) {
    const JudgedKernel k = product(16, words);
    const KernelOpts opts = chosen(k, kWithMatrices);
    CAPTURE(to_text(opts));
    CHECK(to_text(opts).find("matrix(") != std::string::npos);
    CHECK(products_in(program_of(k, opts)) > 0);
    CHECK(problem_with(k, opts) == "");
    CHECK(to_text(chosen(k, {})).find("matrix(") == std::string::npos);
  }
}

TEST_CASE("few rows are cheaper as sums of words") {
  CHECK(to_text(chosen(product(1, 8), kWithMatrices)).find("matrix(") == std::string::npos);
  CHECK(to_text(chosen(product(2, 8), kWithMatrices)).find("matrix(") == std::string::npos);
  CHECK(to_text(chosen(product(4, 8), kWithMatrices)).find("matrix(") != std::string::npos);
}

TEST_CASE("cycles grow with the rows of a product, and sums of words faster") {
  const auto shape = [](int64_t rows, int64_t words) { return MatrixShape{.m = rows, .n = 16, .k = 4 * words}; };
  const MatrixUnit& unit = *unit_for_bytes(kWithMatrices);
  CHECK(tile_cycles(shape(16, 16), unit) < 2 * tile_cycles(shape(8, 16), unit));
  CHECK(dot_cycles(shape(16, 16), kWithMatrices) == 2 * dot_cycles(shape(8, 16), kWithMatrices));
  CHECK(tile_cycles(shape(16, 64), unit) > 4 * 16);  // four instructions of 16 cycles
}

TEST_CASE("what is no product of matrices has a reason") {
  const JudgedKernel k = product(32, 8);
  const Refs stores = prepared(k.tree);
  const auto reason = [&](const std::string& before, const Opt& opt) {
    return why_not(apply_opts(stores, parse_opts(before).take()), opt);
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(reason("", matrix("o0", 16)) == "matrix: there are no sums of products of words");
  const KernelOpts good = chosen(k, kWithMatrices);
  const auto at = std::find_if(good[0].begin(), good[0].end(), [](const Opt& o) { return o.kind == OptKind::Matrix; });
  REQUIRE(at != good[0].end());
  const std::vector<Opt> before(good[0].begin(), at);
  CHECK(reason(to_string(before), *at) == "");
  CHECK(contains(reason(to_string(before), matrix(at->axis, 32)), "at most 16 rows"));
  std::vector<Opt> rolled = before;
  std::erase_if(rolled, [](const Opt& o) { return o.kind == OptKind::Unroll; });
  CHECK(contains(reason(to_string(rolled), *at), "its words are not written out"));
  std::vector<Opt> no_lanes = before;
  std::erase_if(no_lanes, [](const Opt& o) { return o.kind == OptKind::Local; });
  CHECK(!reason(to_string(no_lanes), *at).empty());
}

TEST_CASE("options around products of matrices leave their sums as they are") {
  std::mt19937_64 rng(11);
  size_t with_matrices = 0;
  for (int round = 0; round < 60; ++round) {
    const JudgedKernel k = product(8 * (1 + round % 2), 8);
    std::vector<Opt> opts = chosen(k, kWithMatrices)[0];
    opts.resize(opts.size() - static_cast<size_t>(round) % opts.size());
    const std::vector<Opt> more = random_opts(apply_opts(prepared(k.tree), opts), rng, 6);
    opts.insert(opts.end(), more.begin(), more.end());
    CAPTURE(to_string(opts));
    with_matrices += products_in(program_of(k, {opts})) > 0;
    CHECK(problem_with(k, {opts}) == "");
  }
  CHECK(with_matrices > 10);
}

TEST_CASE("sums longer than a product of matrices are sums of several") {
  const JudgedKernel k = kernel_of(sink({output(9, grouped_product(16, 16, 1, 128))}));
  const KernelOpts opts = chosen(k, kWithMatrices);
  CAPTURE(to_text(opts));
  CHECK(products_in(program_of(k, opts)) > 0);
  CHECK(problem_with(k, opts) == "");
}

TEST_CASE("sums of a long product stay in the unit") {
  const JudgedKernel k = kernel_of(sink({output(9, grouped_product(16, 16, 1, 128))}));
  const std::vector<Opt> opts{
      local("o1", 16), {OptKind::Dot, *parse_range_id("r1.1"), 4}, unroll("r1.0", 128), matrix("o0", 16)};
  REQUIRE(why_not_last(prepared(k.tree), opts) == "");
  const Program p = program_of(k, {opts});
  REQUIRE(products_in(p) == 1);
  for (const Instruction& x : p.code)
    if (x.kind == Inst::MatrixDot) CHECK(matrix_shape(x).k == 512);
  CHECK(problem_with(k, {opts}) == "");
  std::vector<Opt> plain = opts;
  plain.back().kind = OptKind::Upcast;
  CHECK(bits_with(k, {opts}) == bits_with(k, {plain}));
}
