// One GGUF file's bytes -> its metadata and tensor table, everything checked. GgufFile puts the
// shards together.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "gguf/metadata.h"

namespace smelt {

struct ParsedGguf {
  uint32_t version = 0;
  uint32_t alignment = 0;
  uint64_t data_offset = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // with `shard` 0; in the order of the file
};

// `path` is the name in errors about the file as a whole.
Result<ParsedGguf> parse_gguf(std::span<const std::byte> bytes, const std::string& path);

}  // namespace smelt
