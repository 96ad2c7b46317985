// IndexSum: an i64 index expression as a constant plus integer multiples of products, the form in
// which sums are collected, ordered and divided.
//
//   3 + i * 256 + h * (pos + n) * 64   =   3, {i: 256, h * (pos + n): 64}
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/node.h"

namespace smelt {

// A product of factors (see factors_of), itself a node, and how often it is taken.
struct IndexTerm {
  Ref product;
  int64_t times;
  bool operator==(const IndexTerm&) const = default;
};

struct IndexSum {
  int64_t constant = 0;
  std::vector<IndexTerm> terms;  // in the order of term_less(), each product once, times != 0

  bool is_constant() const { return terms.empty(); }
  bool is_single() const { return terms.size() == 1 && constant == 0; }
  bool operator==(const IndexSum&) const = default;
};

// Order of terms: by the innermost range in them, so that what an outer loop knows already stands
// together at the left and can leave the inner loops. Structural otherwise.
bool term_less(Ref a, Ref b);

// Reads an i64 expression; nullopt if a coefficient overflows. Products are multiplied out where a
// range-dependent sum meets another factor, but a sum of sizes (no range in it) stays one factor,
// so that it can be divided away again.
std::optional<IndexSum> index_sum(Ref expr);

// The one node of a sum: products in order, constant last.
Ref to_node(const IndexSum& sum);

// Bounds of the sum by interval arithmetic over its terms, saturating.
int64_t min_of(const IndexSum& sum);
int64_t max_of(const IndexSum& sum);

// a + b * times and a * b; nullopt if a coefficient overflows.
std::optional<IndexSum> add(const IndexSum& a, const IndexSum& b, int64_t times = 1);
std::optional<IndexSum> multiply(const IndexSum& a, const IndexSum& b);

// The factors of a product: nodes that are no products themselves, in order, repeated ones
// repeated.
Refs factors_of(Ref product);
Ref product_of(Refs factors);  // REQUIRES: at least one factor.

// A sum as one factor: its greatest common divisor times what is left. REQUIRES: not a constant.
IndexTerm as_factor(const IndexSum& sum);

// term / divisor, where nothing remains.
std::optional<IndexSum> divide_exactly(const IndexTerm& term, const IndexTerm& divisor);

// How far inside the innermost range of expr lies (sizes of ranges count as well), -1 if there is
// none: loops before reduction loops before lanes and unrolled ranges; among those of a kind, by
// number. Remembered; thread-safe.
int64_t innermost_range(Ref expr);

}  // namespace smelt
