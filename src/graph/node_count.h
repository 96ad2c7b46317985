// How many nodes there are: they live as long as the process.
#pragma once

#include <cstddef>

namespace smelt {

struct NodeCount {
  size_t nodes = 0;
  size_t bytes = 0;  // about, with their lists of sources and what finds them again
};
NodeCount node_count();

}  // namespace smelt
