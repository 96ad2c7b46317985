#include "runtime/memory_nodes.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "runtime/cores.h"
#include "runtime/memory.h"

using namespace smelt;

TEST_CASE("cores and pages lie on nodes of memory") {
  std::set<int> known = {-1};  // some systems refuse to tell
  for (int cpu : core_cpus()) known.insert(node_of_cpu(cpu));
  CHECK(node_of_cpu(1 << 20) == 0);
  const auto buffer = Buffer::allocate(size_t{1} << 20);
  REQUIRE(buffer.ok());
  std::memset(buffer->data(), 1, size_t{1} << 20);
  const std::byte* const pages[] = {buffer->data(), buffer->data() + (1 << 19)};
  const std::vector<int> nodes = nodes_of_pages(pages);
  CHECK(nodes.size() == 2);
  for (int node : nodes) CHECK(known.contains(node));
  CHECK(nodes_of_pages({}).empty());
}

TEST_CASE("workers have nodes where each has a core, and there are several") {
  CHECK(nodes_of_workers(1).empty());
  CHECK(nodes_of_workers(1000).empty());
  const auto cores = static_cast<int>(core_cpus().size());
  const std::vector<int> nodes = nodes_of_workers(cores);
  if (nodes.empty()) return;
  CHECK(nodes.size() == static_cast<size_t>(cores));
  CHECK(std::set<int>(nodes.begin(), nodes.end()).size() > 1);
}
