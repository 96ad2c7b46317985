// What linearize must know of the nodes of a nest before it gives them a place.
#pragma once

#include <set>
#include <unordered_map>

#include "codegen/opt.h"

namespace smelt {

using RangeSet = std::set<const Node*>;

// Facts about nodes of one nest, each computed once.
class NestFacts {
 public:
  // Ranges that must be known before the node is: those of its reductions are not among them, their sizes' are.
  const RangeSet& free_ranges(Ref n);
  int lanes(Ref n);
  // Number of reductions on the longest path down, the node included.
  int height(Ref n);

 private:
  std::unordered_map<const Node*, RangeSet> free_;
  std::unordered_map<const Node*, int> lanes_;
  std::unordered_map<const Node*, int> height_;
};

// The ranges that a reduction runs over, and what it combines.
Refs bound_ranges(Ref reduce);
Refs terms_of(Ref reduce);

}  // namespace smelt
