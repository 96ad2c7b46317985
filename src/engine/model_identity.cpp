#include "engine/model_identity.h"

#include <xxhash.h>

#include <algorithm>

#include "base/hex.h"

namespace smelt {

uint64_t header_hash(const GgufFile::Shard& shard) { return XXH3_64bits(shard.bytes.data(), shard.data_offset); }

uint64_t sample_hash(std::span<const std::byte> file) {
  constexpr size_t kSamples = 256, kSampleBytes = 4096;
  uint64_t hash = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    const size_t at = file.size() / kSamples * i;
    const auto sample = file.subspan(at, std::min(kSampleBytes, file.size() - at));
    hash = XXH3_64bits_withSeed(sample.data(), sample.size(), hash);
  }
  return hash;
}

std::string model_identity(const GgufFile& file) {
  std::string all;
  for (const GgufFile::Shard& shard : file.shards())
    all +=
        std::to_string(shard.bytes.size()) + " " + hex(header_hash(shard)) + " " + hex(sample_hash(shard.bytes)) + "\n";
  return hex(XXH3_64bits(all.data(), all.size()));
}

}  // namespace smelt
