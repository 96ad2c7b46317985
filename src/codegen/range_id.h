// The names that options have for the ranges of a nest.
//
//   o1      the loop over output axis 1                r1      a reduction, by its height (graph/range_kind.h)
//   o1.0    its outer part, once an option has cut it  o1.1    the inner part
//   r1.1#2  of several ranges with this number, the third: reductions side by side may have one
//
// An id stays with its range, whatever is cut, moved or taken around it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/range_kind.h"

namespace smelt {

struct RangeId {
  int64_t number = 0;
  int among = 0;  // of the ranges of the nest that have this number, in their order
  bool operator==(const RangeId&) const = default;
};

std::string to_string(RangeId id);
std::optional<RangeId> parse_range_id(std::string_view text);  // the form that to_string prints

}  // namespace smelt
