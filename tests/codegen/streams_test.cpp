// Kernels that read matrices one after the other, against the interpreter and for any number of workers.
#include "schedule/streams.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/any_schedule.h"
#include "support/chosen_matrices.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

JudgedKernel chosen_kernel(const ChosenMatrices& c) {
  const JudgedKernel kernel = kernel_of(sum_over_chosen(c));
  REQUIRE(kernel.tree->src.size() == 2);
  return kernel;
}

}  // namespace

TEST_CASE("a sum over chosen matrices agrees with the interpreter, with options and without") {
  std::mt19937_64 rng(11);
  for (const ChosenMatrices& c : {ChosenMatrices{4, 64, 32}, {2, 32, 8}, {3, 48, 64}, {8, 32, 16}})
    check_with_any_options(chosen_kernel(c), rng);
}

TEST_CASE("the result does not depend on who reads which rows of the matrices") {
  check_with_any_workers(chosen_kernel({.used = 4, .rows = 112, .width = 32}));
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
