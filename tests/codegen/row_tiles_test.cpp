// Kernels whose tasks are rows of a prompt, against the interpreter and for any number of workers.
#include "schedule/row_tiles.h"

#include <doctest/doctest.h>

#include "support/any_schedule.h"
#include "support/byte_rows.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// Of a norm: rows of 128 with a weight, then their bytes in blocks of 32.
JudgedKernel rows_kernel(bool keeps, int64_t tokens8) {
  const Dim tokens = Dim(variable("tokens8", 1, 8) * 8);
  const Tensor x = rms_norm(input(0, {tokens, 128}), input(1, {128}));
  const JudgedKernel kernel = kernel_of(rows_to_bytes(reshape(x, {tokens, 4, 32}), keeps), {{"tokens8", tokens8}});
  REQUIRE(kernel.tree->src.size() >= 4);
  return kernel;
}

}  // namespace

TEST_CASE("steps of a row agree with the interpreter, with options and without") {
  std::mt19937_64 rng(5);
  for (bool keeps : {false, true}) check_with_any_options(rows_kernel(keeps, 3), rng);
}

TEST_CASE("the result does not depend on who has which rows") { check_with_any_workers(rows_kernel(true, 5)); }
