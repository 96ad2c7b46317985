// Which loads of a thread are neighbours in memory, so that one instruction can load them together: for languages whose
// compilers are not known to find that out.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/program.h"

namespace smelt {

// Of a load: with the first one of its group all are loaded, `count` elements from `constant` bytes behind the varying
// part on; this one is element `element` of them.
struct WideLoad {
  int first = 0;
  int64_t constant = 0;
  int count = 1, element = 0;
};

// By instruction; `count` is 1 for what is loaded alone. Groups are of 2 or 4 elements and at most `most_bytes`, and
// lie where an address that is a multiple of their size says so.
std::vector<WideLoad> wide_loads(const Program& program, const std::vector<int64_t>& multiples, int64_t most_bytes);

}  // namespace smelt
