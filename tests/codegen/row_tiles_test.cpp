// Kernels whose tasks are rows of a prompt, against the interpreter and for any number of workers.
#include "schedule/row_tiles.h"

#include <doctest/doctest.h>

#include "support/byte_rows.h"
#include "support/judge.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// Of a norm: rows of 128 with a weight, then their bytes in blocks of 32.
JudgedKernel rows_kernel(bool keeps, int64_t tokens8) {
  const Dim tokens = Dim(variable("tokens8", 1, 8) * 8);
  const Tensor x = rms_norm(input(0, {tokens, 128}), input(1, {128}));
  const JudgedKernel kernel =
      kernel_of(rows_to_bytes(reshape(x, {tokens, 4, 32}), keeps), {{"tokens8", tokens8}});
  REQUIRE(kernel.tree->src.size() >= 4);
  return kernel;
}

std::vector<Bytes> run(const JudgedKernel& kernel, int64_t workers) {
  const Program program = program_of(kernel, {});
  std::vector<Bytes> after = kernel.buffers;
  std::vector<ByteSpan> spans(after.begin(), after.end());
  for (int64_t part = 0; part < workers; ++part)
    REQUIRE(evaluate(program, spans, std::vector<int64_t>{kernel.variables.at("tokens8")}, part,
                     workers)
                .ok());
  return after;
}

}  // namespace

TEST_CASE("steps of a row agree with the interpreter, with options and without") {
  std::mt19937_64 rng(5);
  for (bool keeps : {false, true}) {
    const JudgedKernel kernel = rows_kernel(keeps, 3);
    CHECK(problem_with(kernel, KernelOpts(kernel.tree->src.size())) == "");
    CHECK(problem_with(kernel, {}) == "");
    for (int i = 0; i < 8; ++i) {
      const KernelOpts opts = random_opts_of(kernel.tree, rng, 6);
      CHECK_MESSAGE(problem_with(kernel, opts) == "", to_text(opts));
    }
  }
}

TEST_CASE("the result does not depend on who has which rows") {
  const JudgedKernel kernel = rows_kernel(true, 5);
  const std::vector<Bytes> alone = run(kernel, 1);
  CHECK(alone != kernel.buffers);
  for (int64_t workers : {2, 3, 7, 16}) CHECK(run(kernel, workers) == alone);
}
