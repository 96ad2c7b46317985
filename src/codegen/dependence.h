// Which loops a value moves with, and how.
#pragma once

#include <algorithm>

#include "graph/node.h"

namespace smelt {

// How long loops are does not count.
struct Dependence {
  Refs direct;   // ranges in the value, or in the offset from which it is loaded
  Refs jumps;    // ranges in the offset of an index that says where it is loaded from
  Refs indices;  // those loads
};

Dependence dependence_of(Ref value);

inline bool contains(const Refs& list, Ref x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

}  // namespace smelt
