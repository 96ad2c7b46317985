// How much memory the attention cache takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/cache_reads.h"
#include "gguf/gguf.h"

namespace smelt {

constexpr const char* kDefaultCacheType = "q8";

// What tokens read of it, as `--cache-type` names the type; of a model that smelt cannot run nothing.
CacheReads cache_reads(const GgufFile& file, const std::string& cache_type);

// What one sequence with a context of so many tokens takes: layers with a window keep fewer rows.
std::optional<uint64_t> cache_bytes(const GgufFile& file, const std::string& cache_type, uint64_t context);

}  // namespace smelt
