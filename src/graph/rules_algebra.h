// Simplification of scalar expressions: index arithmetic with ranges, and folding that is safe for
// data.
//
//   simplify((i * 256 + j) / 256)    ->  i           where j is a range of 256
//   simplify((x / 4) * 4 + x % 4)    ->  x
//   simplify(cast(u8, i32) < 256)    ->  true
//
// i64 is index arithmetic and assumed not to overflow; the other integers wrap at their width and
// get only rules that hold then. Floats: constants fold at the dtype's precision; multiplying or
// dividing by one and adding or subtracting zero disappear (so the sign of a zero is not kept);
// nothing is reassociated and NaN is respected.
#pragma once

#include <optional>
#include <unordered_map>

#include "graph/node.h"
#include "graph/rewrite.h"

namespace smelt {

// Rules for elementwise nodes of all dtypes, one a line. Those of rules_index.h are not in it.
const RuleSet& algebra();

// The simplest form known of every scalar below root. Equal index sums become the same node: terms
// in one order (outer ranges first, then structural), constants last. Ranges keep their identity
// (their sizes are not touched, so simplify a size before making its range), as do nodes with a
// shape. simplify(simplify(x)) == simplify(x). Results are remembered for the life of the process;
// thread-safe.
Ref simplify(Ref root);

using Replacements = std::unordered_map<Ref, Ref, RefHash>;

// `root` with nodes replaced everywhere (in the sizes of ranges too), simplified. A replacement is
// not searched again. Work is shared within one call, and with other calls through the memory of
// simplify().
Ref substitute(Ref root, const Replacements& replacements);

// The same of one range, whose index becomes an expression of others: the stores and reductions below root that run
// over it run over those in its place.
Ref replace_range(Ref root, Ref range, const Refs& by, Ref index);

// d expr / d range where expr is linear in `range` with a constant factor; 0 if it does not depend
// on it; nullopt if the step is not constant. REQUIRES: expr is simplified, of an integer dtype.
std::optional<int64_t> stride(Ref expr, Ref range);

// Largest number that is known to divide a size, symbolic sizes included (v * 8 gives 8).
int64_t known_divisor(Ref size);

// Whether `node` is in the graph below expr. Linear in the size of expr: for many questions ask
// ranges_of() once.
bool depends_on(Ref expr, Ref node);

// The Range nodes below expr, in the order of toposort(). Bound ranges of reductions inside are
// among them.
Refs ranges_of(Ref expr);

}  // namespace smelt
