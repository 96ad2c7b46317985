#include "base/mapped_files.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace smelt {
namespace {

struct Mapping {
  std::atomic<bool> is_taken = false;
  std::atomic<uintptr_t> begin = 0;  // 0: nothing is there (yet)
  uintptr_t end = 0;
  size_t length = 0;
  char path[512] = {};
};

Mapping mappings[256];  // models have shards

}  // namespace

void note_mapping(std::span<const std::byte> bytes, std::string_view path) {
  for (Mapping& m : mappings) {
    if (m.is_taken.exchange(true)) continue;
    m.end = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size();
    m.length = std::min(path.size(), sizeof m.path);
    std::memcpy(m.path, path.data(), m.length);
    m.begin.store(reinterpret_cast<uintptr_t>(bytes.data()), std::memory_order_release);
    return;
  }
}

void forget_mapping(const std::byte* begin) {
  for (Mapping& m : mappings) {
    auto expected = reinterpret_cast<uintptr_t>(begin);
    if (!m.begin.compare_exchange_strong(expected, 0)) continue;
    m.is_taken = false;
    return;
  }
}

std::string_view mapped_path(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Mapping& m : mappings) {
    const uintptr_t begin = m.begin.load(std::memory_order_acquire);
    if (begin != 0 && begin <= at && at < m.end) return {m.path, m.length};
  }
  return {};
}

}  // namespace smelt
