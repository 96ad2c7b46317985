// Sums of products of words, which a matrix unit may make: what is asked of one before it matters how operands come to
// the unit, from memory (matrix_rows.h) or from the registers of a warp (matrix_fragments.h).
#pragma once

#include <string>

#include "codegen/passes.h"
#include "graph/operands.h"
#include "graph/range_kind.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {

inline constexpr char kNoWordSums[] = "there are no sums of products of words";

// The product of words (dot4) that a sum adds up; null if it is no such sum.
inline Ref words_of_sum(Ref sum) {
  const Ref dot = sum->op == Op::ReduceSum ? ReduceView(sum).values[0] : Ref();
  return dot && dot->op == Op::Dot4 && is_const(Dot4View(dot).sum, 0) ? dot : Ref();
}

// The ranges of a sum: words that are written out, and loops. False if lanes or threads share its terms.
inline bool split_ranges(Ref sum, Refs& words, Refs& loops) {
  for (Ref r : ReduceView(sum).ranges) {
    if (kind_of(r) == RangeKind::Lane) return false;
    (kind_of(r) == RangeKind::Unroll ? words : loops).push_back(r);
  }
  return true;
}

// What `problem_of` says of the sums of the nest, as they are once words are packed (passes.h): "" if it says that of
// one of them, else the problem of the last one that adds up products of words.
template <class F>
std::string why_no_word_sum(const Refs& stores, const F& problem_of) {
  std::string reason = kNoWordSums;
  bool is_there = false;
  for (Ref s : pack_dots(hoist_factors(stores)))
    for (Ref n : toposort(s)) {
      if (n->op != Op::ReduceSum) continue;
      const std::string problem = problem_of(n);
      is_there |= problem.empty();
      if (problem != kNoWordSums) reason = problem;
    }
  return is_there ? "" : reason;
}

}  // namespace smelt
