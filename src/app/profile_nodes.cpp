#include "app/profile_nodes.h"

#include <algorithm>
#include <vector>

#include "engine/near_pieces.h"
#include "runtime/memory_nodes.h"

namespace smelt {
namespace {

constexpr int64_t kSamples = 64;  // pages that are looked at of each weight

std::vector<int> sampled_pages(const std::byte* begin, int64_t bytes) {
  std::vector<const std::byte*> pages;
  for (int64_t i = 0; i < kSamples; ++i) pages.push_back(begin + bytes * i / kSamples);
  return nodes_of_pages(pages);
}

}  // namespace

double remote_share_of(std::span<const int> pages, bool is_chosen, std::span<const int> nodes) {
  double remote = 0, known = 0;
  for (size_t i = 0; i < pages.size(); ++i) {
    if (pages[i] < 0) continue;
    ++known;
    const auto near = static_cast<double>(std::count(nodes.begin(), nodes.end(), pages[i]));
    if (is_chosen)
      remote += 1 - near / static_cast<double>(nodes.size());
    else
      remote += nodes[static_cast<size_t>(reader_of(static_cast<int64_t>(i), static_cast<int64_t>(pages.size()),
                                                    static_cast<int64_t>(nodes.size())))] != pages[i];
  }
  return known > 0 ? remote / known : 0;
}

double remote_share(const PlanLaunch& launch, const KernelCost& cost, std::span<const int> nodes) {
  if (nodes.empty() || !launch.launch.buffers) return 0;
  double remote = 0, all = 0;
  for (size_t i = 0; i < std::min(launch.buffers.size(), cost.buffers.size()); ++i) {
    const BufferCost& read = cost.buffers[i];
    const auto* begin = static_cast<const std::byte*>(launch.launch.buffers[i]);
    if (!launch.buffers[i].is_weight || !begin || read.read <= 0) continue;
    all += read.read;
    remote += read.read * remote_share_of(sampled_pages(begin, launch.buffers[i].bytes), read.gathered, nodes);
  }
  return all > 0 ? remote / all : 0;
}

}  // namespace smelt
