#include "app/cache_size.h"

#include <algorithm>

#include "app/engine_flags.h"
#include "base/checked.h"
#include "base/machine.h"
#include "engine/engine_memory.h"
#include "model/model.h"

namespace smelt {

namespace {

constexpr uint64_t kMostTokens = uint64_t{1} << 40;  // no number of bytes of them leaves its range

DType type_of(const std::string& cache_type) {
  EngineFlags flags;
  flags.cache_type = cache_type;
  return session_options(flags).cache_type;
}

}  // namespace

CacheReads cache_reads(const GgufFile& file, const std::string& cache_type) {
  const auto model = read_model(file);
  return model ? CacheReads::of(**model, type_of(cache_type)) : CacheReads();
}

std::optional<uint64_t> cache_bytes(const GgufFile& file, const std::string& cache_type, uint64_t context) {
  const auto model = read_model(file);
  if (!model) return std::nullopt;
  const DType type = type_of(cache_type);
  const auto tokens = static_cast<int64_t>(std::min(context, kMostTokens));
  EngineLayout layout = EngineLayout::make(tokens, Machine().prompt_chunk);
  layout.add_window((*model)->longest_window(), {});
  const int64_t local_tokens = std::min(tokens, layout.local_pages * kPageSize);
  Checked bytes = 0;
  for (int64_t layer = 0; layer < (*model)->numbers().layers; ++layer)
    for (const CachePart& part : (*model)->cache_parts(type, layer))
      bytes = bytes + Checked(static_cast<uint64_t>(part.row_bytes)) *
                          ((*model)->window(layer) ? static_cast<uint64_t>(local_tokens) : context);
  return bytes.get();
}

}  // namespace smelt
