#include "engine/prefault.h"

#include <algorithm>

#include "base/advice.h"
#include "runtime/available_memory.h"

namespace smelt {
namespace {

constexpr uint64_t kPiece = 4 << 20;  // between two reports and two looks at `cancel`

}  // namespace

void prefault(const GgufFile& file, const LoadOptions& options) {
  if (file.file_bytes() > available_memory()) return;
  uint64_t done = 0;
  for (const GgufFile::Shard& shard : file.shards()) {
    if (!shard.is_mapped) continue;
    for (uint64_t at = 0; at < shard.bytes.size() && !options.cancelled(); at += kPiece) {
      const uint64_t size = std::min(kPiece, shard.bytes.size() - at);
      if (!advise(shard.bytes.subspan(at, size), Advice::PopulateRead)) return;
      options.report(static_cast<int64_t>(done += size), static_cast<int64_t>(file.file_bytes()));
    }
  }
}

}  // namespace smelt
