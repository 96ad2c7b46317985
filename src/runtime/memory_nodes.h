// Nodes of memory: a machine of several sockets has one at each, which the cores there read faster than the others.
// linux/memory_nodes.cpp, apple/memory_nodes.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace smelt {

int node_of_cpu(int cpu);  // 0 where the system does not tell

// The node that a page lies on, for an address in it; -1 where it lies nowhere yet, or the system does not tell.
std::vector<int> nodes_of_pages(std::span<const std::byte* const> addresses);

// The nodes of the workers that a launch is shared out among, if each is pinned to a core; none where nobody is, or the
// machine has one node.
std::vector<int> nodes_of_workers(int workers);

}  // namespace smelt
