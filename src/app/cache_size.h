// How much of the attention cache one token takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gguf/gguf.h"

namespace smelt {

constexpr const char* kDefaultCacheType = "q8";

// In all layers, as `--cache-type` names the type; nothing for a model that smelt cannot run.
std::optional<uint64_t> cache_bytes_per_token(const GgufFile& file, const std::string& cache_type);

}  // namespace smelt
