// Footprints: how many distinct bytes of a buffer some loads or stores touch, from the form of their addresses.
//
//   address   7 + i * 288 + j * 18    i < 4, j < 16        each of 2 bytes
//   Pattern   {7, 2, {{288, 4}, {18, 16}}}                 4 * 16 * 2 bytes
#pragma once

#include <cstdint>
#include <vector>

#include "graph/node.h"

namespace smelt {

struct Pattern {
  struct Step {
    int64_t stride = 0;  // in bytes, positive
    int64_t count = 1;
    bool operator==(const Step&) const = default;
  };
  int64_t first = 0;        // lowest byte offset; counted from 0 where a gather decides
  int64_t bytes = 0;        // of one access
  std::vector<Step> steps;  // widest stride first, no count of 1
  bool gathered = false;    // an index found in memory is part of the address
  bool operator==(const Pattern&) const = default;
};

// Of an access of `bytes` at `offset`, an expression over ranges of constant sizes.
Pattern pattern_of(Ref offset, int64_t bytes);

// Whether the expression loads: what memory holds is part of it then.
bool reads_memory(Ref expr);
// Whether the ranges in it are of constant sizes.
bool has_const_sizes(Ref expr);

// From the first byte that the patterns touch to the last one. REQUIRES: there is a pattern.
struct Extent {
  int64_t first = 0;
  double bytes = 0;  // which may be more than integers hold
  int64_t whole_bytes() const { return bytes < 1e15 ? static_cast<int64_t>(bytes) : int64_t{1} << 50; }
};
Extent extent_of(const std::vector<Pattern>& patterns);

// Distinct bytes that all patterns together touch: exact where each one's steps nest and outer steps agree, an upper
// bound otherwise.
double distinct_bytes(std::vector<Pattern> patterns);

}  // namespace smelt
