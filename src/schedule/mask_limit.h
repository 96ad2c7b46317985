// Where a causal mask ends a range.
#pragma once

#include <optional>

#include "graph/node.h"

namespace smelt {

// A value that a condition drops: where(condition, value, identity), or the other way round.
struct Mask {
  Ref condition;  // whole, as it stands in the tree
  bool keeps;     // the value of the condition for values that count
};

// The mask of a term of a reduction. REQUIRES: op is ReduceSum, ReduceMax or SoftmaxSum.
std::optional<Mask> mask_of(Ref term, Op op);
bool is_identity(Ref value, Op op);

// The first index that the mask drops, if the kept ones are an initial part of the range.
std::optional<Ref> limit_of(const Mask& mask, Ref range);

// An index from which on the mask drops all, where one of its conditions alone says so: the mask of a window, which
// drops positions at both ends.
std::optional<Ref> end_of(const Mask& mask, Ref range);

}  // namespace smelt
