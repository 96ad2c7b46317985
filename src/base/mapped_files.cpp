#include "base/mapped_files.h"

#include <sys/mman.h>
#include <unistd.h>

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

// A copy, as a mapping may be forgotten.
struct Lost {
  std::atomic<bool> is_taken = false, is_there = false;
  size_t length = 0;
  char path[sizeof Mapping::path] = {};
};

Lost lost;

const Mapping* mapping_at(uintptr_t address) {
  for (const Mapping& m : mappings) {
    const uintptr_t begin = m.begin.load(std::memory_order_acquire);
    if (begin != 0 && begin <= address && address < m.end) return &m;
  }
  return nullptr;
}

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
  const Mapping* mapping = mapping_at(reinterpret_cast<uintptr_t>(address));
  return mapping ? std::string_view(mapping->path, mapping->length) : std::string_view();
}

bool lose_file(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const Mapping* mapping = mapping_at(at);
  if (!mapping) return false;
  if (!lost.is_taken.exchange(true)) {
    lost.length = mapping->length;
    std::memcpy(lost.path, mapping->path, mapping->length);
    lost.is_there.store(true, std::memory_order_release);
  }
  const uintptr_t page = at - at % static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return ::mmap(reinterpret_cast<void*>(page), mapping->end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) != MAP_FAILED;
}

std::string_view lost_file() {
  if (!lost.is_there.load(std::memory_order_acquire)) return {};
  return {lost.path, lost.length};
}

}  // namespace smelt
