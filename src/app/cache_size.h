// How much memory the attention cache takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gguf/gguf.h"

namespace smelt {

constexpr const char* kDefaultCacheType = "q8";

// What one token adds in all layers, as `--cache-type` names the type; nothing for a model that smelt cannot run.
std::optional<uint64_t> cache_bytes_per_token(const GgufFile& file, const std::string& cache_type);

// For one sequence with a context of so many tokens: layers with a window keep fewer rows.
std::optional<uint64_t> cache_bytes(const GgufFile& file, const std::string& cache_type, uint64_t context);

}  // namespace smelt
