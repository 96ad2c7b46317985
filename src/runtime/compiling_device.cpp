#include "runtime/compiling_device.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/clock.h"
#include "runtime/compile_batch.h"
#include "runtime/packed_kernel.h"

namespace smelt {

void CompilingDevice::set_up(CompilingSetup setup) {
  setup_ = std::move(setup);
  cache_ = open_kernel_cache(setup_.cache_dir, setup_.use_cache);
}

KernelKey CompilingDevice::find_key(const Source& source) const {
  if (const auto known = parse_key(source.key)) return *known;
  return find_key(setup_.keyed_by_shape ? source.text + text_of(source.shape) : source.text, source.entry);
}

KernelKey CompilingDevice::find_key(std::string_view text, std::string_view entry) const {
  return make_key({.text = text,
                   .entry = entry,
                   .triple = setup_.triple,
                   .cpu = setup_.cpu,
                   .features = setup_.features,
                   .compiler = setup_.compiler,
                   .pipeline = setup_.pipeline,
                   .version = setup_.version});
}

std::string CompilingDevice::key_of(const Source& source) const { return format_key(find_key(source)); }

std::optional<std::string> CompilingDevice::recall(std::string_view question) const {
  return cache_.kernels->load(find_key(question, kNoteEntry));
}

void CompilingDevice::remember(std::string_view question, std::string_view answer) const {
  cache_.kernels->store(find_key(question, kNoteEntry), answer);
}

CompileStats CompilingDevice::stats() const {
  std::lock_guard lock(compiling_);
  return stats_;
}

Result<std::vector<const Executable*>> CompilingDevice::compile(std::span<const Source> sources,
                                                                const ProgressFn& progress,
                                                                const std::atomic<bool>* cancel) {
  const auto start = Clock::now();
  std::lock_guard lock(compiling_);
  std::vector<std::string> keys;
  std::vector<Pending> batch;
  std::set<std::string> in_batch;
  for (const Source& source : sources) {
    KernelKey key = find_key(source);
    keys.push_back(key.hex());
    if (kernels_.contains(keys.back()) || !in_batch.insert(keys.back()).second)
      ++stats_.shared;
    else
      batch.push_back({.source = &source, .key = std::move(key)});
  }
  const bool finished = compile_side_by_side(
      {.kernels = batch.size(), .known = sources.size() - batch.size(), .threads = setup_.threads},
      [&](size_t i) { load_or_make(batch[i]); }, progress, cancel);
  if (!finished) return std::vector<const Executable*>{};
  if (!batch.empty()) SMELT_CHECK(link_known(std::move(batch)));

  std::vector<const Executable*> kernels;
  for (const std::string& key : keys) {
    const auto found = kernels_.find(key);
    kernels.push_back(found == kernels_.end() ? nullptr : found->second.get());
  }
  stats_.code_bytes = code_bytes();
  stats_.seconds += seconds_since(start);
  return kernels;
}

void CompilingDevice::load_or_make(Pending& kernel) const {
  if (std::optional<std::string> entry = cache_.kernels->load(kernel.key)) {
    kernel.entry = std::move(*entry);
    kernel.from_cache = true;
  } else if (kernel.source->key.empty()) {
    Result<std::string> made = make_entry(*kernel.source, kernel.key);
    if (!made) return void(kernel.problem = made.error());
    kernel.entry = made.take();
    cache_.kernels->store(kernel.key, kernel.entry);
  }
}

// Those that the cache had, or that were made: all but keys that it does not hold.
Status CompilingDevice::link_known(std::vector<Pending> batch) {
  const auto start = Clock::now();
  for (const Pending& kernel : batch) SMELT_CHECK(kernel.problem);
  std::erase_if(batch, [](const Pending& kernel) { return kernel.entry.empty(); });
  const Status linked = link(batch);
  stats_.link_seconds += seconds_since(start);
  return linked;
}

void CompilingDevice::keep(const Pending& kernel, std::unique_ptr<const Executable> made) {
  kernels_.emplace(kernel.key.hex(), std::move(made));
  ++(kernel.from_cache ? stats_.cached : stats_.compiled);
}

}  // namespace smelt
