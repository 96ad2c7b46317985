// A kernel's result must not depend on its options, nor on how many workers there are.
#pragma once

#include <doctest/doctest.h>

#include "support/judge.h"

namespace smelt::testing {

// Without options, with the heuristic's, and with some random ones.
inline void check_with_any_options(const JudgedKernel& kernel, std::mt19937_64& rng) {
  CHECK(problem_with(kernel, KernelOpts(kernel.tree->src.size())) == "");
  CHECK(problem_with(kernel, {}) == "");
  for (int i = 0; i < 8; ++i) {
    const KernelOpts opts = random_opts_of(kernel.tree, rng, 6);
    CHECK_MESSAGE(problem_with(kernel, opts) == "", to_text(opts));
  }
}

// What `workers` of them leave in the buffers.
inline std::vector<Bytes> run(const JudgedKernel& kernel, int64_t workers) {
  const Program program = program_of(kernel, {});
  std::vector<Bytes> after = kernel.buffers;
  std::vector<ByteSpan> spans(after.begin(), after.end());
  std::vector<int64_t> symbols;
  for (const auto& [name, value] : kernel.variables) symbols.push_back(value);
  for (int64_t part = 0; part < workers; ++part) REQUIRE(evaluate(program, spans, symbols, part, workers).ok());
  return after;
}

inline void check_with_any_workers(const JudgedKernel& kernel) {
  const std::vector<Bytes> alone = run(kernel, 1);
  CHECK(alone != kernel.buffers);
  for (int64_t workers : {2, 3, 7, 16}) CHECK(run(kernel, workers) == alone);
}

}  // namespace smelt::testing
