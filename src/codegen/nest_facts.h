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
  int lanes(Ref n);  // of the vector that it is; lanes that are threads hold a scalar each
  // Number of reductions on the longest path down, the node included.
  int height(Ref n);

 private:
  std::unordered_map<const Node*, RangeSet> free_;
  std::unordered_map<const Node*, int> lanes_;
  std::unordered_map<const Node*, int> height_;
};

}  // namespace smelt
