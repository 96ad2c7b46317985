#include "runtime/memory_nodes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "base/from_chars.h"
#include "runtime/cores.h"

namespace smelt {
namespace {

std::string line_of(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// Numbers as the system lists them: "0-3,8".
std::vector<int> numbers_in_list(std::string_view list) {
  std::vector<int> numbers;
  const char *at = list.data(), *const end = list.data() + list.size();
  while (at < end) {
    int first = 0;
    auto read = from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    int last = first;
    if (read.ptr < end && *read.ptr == '-') {
      read = from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc()) break;
    }
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    at = read.ptr + 1;
  }
  return numbers;
}

std::map<int, int> nodes_of_cpus() {
  const std::string folder = "/sys/devices/system/node/";
  std::map<int, int> nodes;
  for (int node : numbers_in_list(line_of(folder + "online")))
    for (int cpu : numbers_in_list(line_of(folder + "node" + std::to_string(node) + "/cpulist"))) nodes[cpu] = node;
  return nodes;
}

}  // namespace

int node_of_cpu(int cpu) {
  static const std::map<int, int> nodes = nodes_of_cpus();
  const auto found = nodes.find(cpu);
  return found == nodes.end() ? 0 : found->second;
}

std::vector<int> nodes_of_pages(std::span<const std::byte* const> addresses) {
  std::vector<void*> pages;
  for (const std::byte* address : addresses) pages.push_back(const_cast<std::byte*>(address));
  std::vector<int> nodes(pages.size(), -1);
  // Asked for no node, it moves nothing and says where each page is; below zero is an error of that page.
  if (::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0)
    std::fill(nodes.begin(), nodes.end(), -1);
  for (int& node : nodes) node = std::max(node, -1);
  return nodes;
}

std::vector<int> nodes_of_workers(int workers) {
  const std::vector<int> cpus = core_cpus();
  if (workers < 2 || cpus.size() != static_cast<size_t>(workers)) return {};
  std::vector<int> nodes;
  for (int cpu : cpus) nodes.push_back(node_of_cpu(cpu));
  const bool is_one = std::all_of(nodes.begin(), nodes.end(), [&](int node) { return node == nodes[0]; });
  return is_one ? std::vector<int>() : nodes;
}

}  // namespace smelt
