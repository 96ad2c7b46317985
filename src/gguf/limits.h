// What a GGUF file may ask for at most. Each has a test at limit - 1, limit and limit + 1
// (tests/gguf).
#pragma once

#include <cstdint>

namespace smelt::gguf_limits {

constexpr uint64_t kKeyBytes = 64 << 10;     // of a metadata key
constexpr uint64_t kNameBytes = 1 << 10;     // of a tensor name
constexpr uint64_t kStringBytes = 64 << 20;  // of a string value
constexpr uint64_t kArrayElements = 1 << 27;
constexpr uint64_t kTensors = 1 << 17;    // in all shards together
constexpr uint64_t kKeyValues = 1 << 17;  // in one file
constexpr uint32_t kDims = 4;
constexpr uint32_t kAlignmentMin = 8;
constexpr uint32_t kAlignmentMax = 64 << 10;  // a power of two
constexpr uint64_t kLayers = 1 << 10;         // block_count; checked by the model
constexpr uint64_t kShards = 1 << 10;

}  // namespace smelt::gguf_limits
