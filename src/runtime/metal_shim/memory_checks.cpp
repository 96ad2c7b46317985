#include "runtime/metal_shim/memory_checks.h"

#include <algorithm>

namespace smelt {
namespace {

bool holds(const MemoryRegion& r, const std::byte* at, size_t bytes) {
  return at >= r.begin && at + bytes <= r.begin + r.bytes;
}

}  // namespace

void MemoryChecks::set_regions(std::vector<MemoryRegion> regions) {
  regions_ = std::move(regions);
  last_ = 0;
  log_.barrier();
  groups_.barrier();
  std::stable_sort(regions_.begin(), regions_.end(), [](const MemoryRegion& a, const MemoryRegion& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.bytes > b.bytes;
  });
  const auto is_same = [](const MemoryRegion& a, const MemoryRegion& b) { return a.begin == b.begin; };
  regions_.erase(std::unique(regions_.begin(), regions_.end(), is_same), regions_.end());
}

const MemoryRegion* MemoryChecks::find(const std::byte* at, size_t bytes, std::string* problem) {
  if (last_ < regions_.size() && holds(regions_[last_], at, bytes)) return &regions_[last_];
  const auto behind = std::upper_bound(regions_.begin(), regions_.end(), at,
                                       [](const std::byte* a, const MemoryRegion& r) { return a < r.begin; });
  if (behind != regions_.begin()) {
    const MemoryRegion& r = *(behind - 1);
    last_ = static_cast<size_t>(&r - regions_.data());
    if (holds(r, at, bytes)) return &r;
    *problem = std::to_string(bytes) + " bytes at byte " + std::to_string(at - r.begin) + " of " + r.name +
               ", which has " + std::to_string(r.bytes);
    return nullptr;
  }
  *problem = "memory that is not given to the kernel";
  return nullptr;
}

std::string MemoryChecks::access(const void* at, size_t bytes, int thread, bool writes) {
  std::string problem;
  const auto* begin = static_cast<const std::byte*>(at);
  const MemoryRegion* region = find(begin, bytes, &problem);
  if (!region) return "thread " + std::to_string(thread) + (writes ? " writes " : " reads ") + problem;
  const auto offset = static_cast<size_t>(begin - region->begin);
  const auto note = [&](AccessLog& log, int who) {
    return writes ? log.write(last_, offset, bytes, who) : log.read(last_, offset, bytes, who);
  };
  if (problem = note(log_, thread); !problem.empty()) return region->name + ": " + problem;
  if (region->of_threadgroup) return "";
  problem = note(groups_, threadgroup_);
  return problem.empty() ? "" : region->name + ": " + problem;
}

std::string MemoryChecks::read(const void* at, size_t bytes, int thread) { return access(at, bytes, thread, false); }
std::string MemoryChecks::write(const void* at, size_t bytes, int thread) { return access(at, bytes, thread, true); }

}  // namespace smelt
