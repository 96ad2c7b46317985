#include "runtime/memory_nodes.h"

namespace smelt {

// All cores read one memory.
int node_of_cpu(int) { return 0; }
std::vector<int> nodes_of_pages(std::span<const std::byte* const> addresses) {
  return std::vector<int>(addresses.size(), 0);
}
std::vector<int> nodes_of_workers(int) { return {}; }

}  // namespace smelt
