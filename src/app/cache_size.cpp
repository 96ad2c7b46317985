#include "app/cache_size.h"

#include "app/engine_flags.h"
#include "engine/engine_memory.h"
#include "model/model.h"

namespace smelt {

std::optional<uint64_t> cache_bytes_per_token(const GgufFile& file, const std::string& cache_type) {
  const auto model = read_model(file);
  if (!model) return std::nullopt;
  EngineFlags flags;
  flags.cache_type = cache_type;
  return static_cast<uint64_t>(cache_row_bytes(**model, session_options(flags).cache_type));
}

}  // namespace smelt
