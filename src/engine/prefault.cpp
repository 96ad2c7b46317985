#include "engine/prefault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace smelt {
namespace {

constexpr uintptr_t kPiece = 64 << 20;  // between two reports

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

}  // namespace

uint64_t available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) << 10;
  return 0;
}

void prefault(const GgufFile& file, const std::function<void(double)>& progress) {
  if (file.file_bytes() > available_memory()) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uint64_t done = 0;
  for (const GgufFile::Shard& shard : file.shards()) {
    const auto begin = reinterpret_cast<uintptr_t>(shard.bytes.data());
    if (begin % page != 0) continue;  // not a mapping of a file
    for (uintptr_t at = 0; at < shard.bytes.size(); at += kPiece) {
      const uintptr_t size = std::min<uintptr_t>(kPiece, shard.bytes.size() - at);
      if (madvise(reinterpret_cast<void*>(begin + at), size, MADV_POPULATE_READ) != 0) return;
      progress(static_cast<double>(done += size) / static_cast<double>(file.file_bytes()));
    }
  }
}

}  // namespace smelt
