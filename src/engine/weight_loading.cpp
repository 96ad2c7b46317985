#include "engine/weight_loading.h"

#include <optional>

#include "base/clock.h"
#include "base/dirs.h"
#include "base/progress.h"
#include "engine/prefault.h"

namespace smelt {
namespace {

LoadOptions options_of(const WeightLoading& loading, const char* what) {
  return {.threads = loading.threads,
          .progress = [&loading, what](double done) { loading.progress(what, done); },
          .cancel = loading.cancel};
}

Result<PackCache> find_pack_cache(const WeightLoading& loading) {
  if (!loading.device.host_sees_memory())
    return Error{"[pack cache] " + loading.device.name() + " has memory of its own, so nothing is kept"};
  if (loading.packing.tensors.empty())
    return Error{"[pack cache] nothing is packed with --no-repack, so nothing is kept"};
  SMELT_TRY(folder, cache_folder());
  if (folder.empty()) return Error{"[pack cache] SMELT_CACHE is off, so nothing is kept"};
  return PackCache::open(loading.file, loading.packing, folder + "/packs");
}

// A cache that cannot be used is no reason not to run.
std::optional<PackCache> open_pack_cache(const WeightLoading& loading) {
  auto cache = find_pack_cache(loading);
  if (cache) return cache.take();
  loading.note(cache.error().message);
  return std::nullopt;
}

std::optional<PackedWeights> load_kept(const WeightLoading& loading, const PackCache& cache) {
  std::string problem;
  auto kept = cache.load(options_of(loading, "loading"), problem);
  if (!problem.empty()) loading.note(problem);
  if (!kept) return std::nullopt;
  loading.note("[pack cache] mapped " + cache.path());
  return PackedWeights::mapped(loading.packing, std::move(*kept));
}

void keep(const WeightLoading& loading, const PackCache& cache, const PackedWeights& packed) {
  const LoadOptions options = options_of(loading, "keeping");
  const Status kept = cache.store(packed.bytes(), options);
  if (options.cancelled()) return;
  loading.note(kept ? "[pack cache] wrote " + bytes_text(packed.bytes().size()) + " to " + cache.path()
                    : kept.error().message + "; nothing is kept");
}

// Of the file what is not packed, and what was kept of an earlier start.
Result<std::vector<AdmittedMemory>> admit_mapped(const WeightLoading& loading, const PackedWeights* kept) {
  std::vector<AdmittedMemory> admitted;
  if (!loading.device.host_sees_memory()) return admitted;
  std::vector<std::span<const std::byte>> mapped;
  for (const GgufFile::Shard& shard : loading.file.shards()) mapped.push_back(shard.bytes);
  if (kept) mapped.push_back(kept->bytes());
  for (const auto& bytes : mapped) {
    SMELT_TRY(memory, AdmittedMemory::admit(loading.device, bytes));
    admitted.push_back(std::move(memory));
  }
  return admitted;
}

}  // namespace

Result<LoadedWeights> load_weights(const WeightLoading& loading) {
  const auto start = Clock::now();
  const LoadOptions options = options_of(loading, "loading");
  loading.progress("loading", 0);
  std::optional<PackCache> cache;
  if (loading.pack_cache) cache = open_pack_cache(loading);
  std::optional<PackedWeights> packed;
  if (cache) packed = load_kept(loading, *cache);
  const bool is_mapped = packed.has_value();
  if (!is_mapped) {
    SMELT_TRY(made, PackedWeights::pack(loading.packing, options, loading.device));
    packed = std::move(made);
  }
  if (loading.packing.tensors.empty()) prefault(loading.file, options);
  if (options.cancelled()) return Error{"[session] interrupted"};
  const double seconds = seconds_since(start);
  if (cache && !is_mapped) keep(loading, *cache, *packed);
  if (options.cancelled()) return Error{"[session] interrupted"};
  SMELT_TRY(admitted, admit_mapped(loading, is_mapped ? &*packed : nullptr));
  return LoadedWeights{std::move(*packed), std::move(admitted), seconds};
}

}  // namespace smelt
