// Kernels that read matrices one after the other, against the interpreter and for any number of workers.
#include "schedule/streams.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/chosen_matrices.h"
#include "support/judge.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

JudgedKernel chosen_kernel(const ChosenMatrices& c) {
  const JudgedKernel kernel = kernel_of(sum_over_chosen(c));
  REQUIRE(kernel.tree->src.size() == 2);
  return kernel;
}

// What `workers` of them leave in the buffers.
std::vector<Bytes> run(const JudgedKernel& kernel, int64_t workers) {
  const Program program = program_of(kernel, {});
  std::vector<Bytes> after = kernel.buffers;
  std::vector<ByteSpan> spans(after.begin(), after.end());
  for (int64_t part = 0; part < workers; ++part)
    REQUIRE(evaluate(program, spans, {}, part, workers).ok());
  return after;
}

}  // namespace

TEST_CASE("a sum over chosen matrices agrees with the interpreter, with options and without") {
  std::mt19937_64 rng(11);
  for (const ChosenMatrices& c :
       {ChosenMatrices{4, 64, 32}, {2, 32, 8}, {3, 48, 64}, {8, 32, 16}}) {
    const JudgedKernel kernel = chosen_kernel(c);
    CHECK(problem_with(kernel, KernelOpts(kernel.tree->src.size())) == "");
    CHECK(problem_with(kernel, {}) == "");
    for (int i = 0; i < 8; ++i) {
      const KernelOpts opts = random_opts_of(kernel.tree, rng, 6);
      CHECK_MESSAGE(problem_with(kernel, opts) == "", to_text(opts));
    }
  }
}

TEST_CASE("the result does not depend on who reads which rows of the matrices") {
  const JudgedKernel kernel = chosen_kernel({.used = 4, .rows = 112, .width = 32});
  const std::vector<Bytes> alone = run(kernel, 1);
  CHECK(alone != kernel.buffers);
  for (int64_t workers : {2, 3, 7, 16}) CHECK(run(kernel, workers) == alone);
}

TEST_CASE("the loop over matrices is around the tasks, and no loop is around it") {
  const Program program = program_of(chosen_kernel({.used = 5, .rows = 64, .width = 32}), {});
  const auto first = std::find_if(program.code.begin(), program.code.end(),
                                  [](const Instruction& i) { return i.kind == Inst::Loop; });
  REQUIRE(first != program.code.end());
  const Instruction& end = program.code[static_cast<size_t>(first->src[1])];
  CHECK(end.kind == Inst::Value);
  CHECK(end.op == Op::Const);
  CHECK(end.arg.i == 5);
}
