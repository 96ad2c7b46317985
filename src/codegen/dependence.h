// Which loops a value moves with, and how.
#pragma once

#include "graph/node.h"

namespace smelt {

// How long loops are does not count.
struct Dependence {
  Refs direct;   // ranges in the value, or in the offset from which it is loaded
  Refs jumps;    // ranges in the offset of an index that says where it is loaded from
  Refs indices;  // those loads
};

Dependence dependence_of(Ref value);

}  // namespace smelt
