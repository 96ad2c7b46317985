#include "runtime/cpu_device.h"

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/dirs.h"
#include "base/ensure.h"
#include "base/parallel.h"
#include "runtime/kernel_cache.h"
#include "runtime/llvm_jit.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// Part of every cache key: raise it when compile_object() makes something else of the same input.
constexpr std::string_view kVersion = "smelt-kernels-1";

constexpr std::string_view kNote =
    "note";  // in place of an entry name: no kernel, but a text about one

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Different text, different symbol: any number of kernels with one entry name can be linked into
// one process.
std::string symbol_of(const Source& source, const KernelKey& key) {
  return source.entry + "." + key.hex();
}

}  // namespace

struct CpuDevice::State {
  CodegenOptions codegen;
  CpuTarget target;
  std::string compiler, pipeline;
  std::unique_ptr<KernelCache> cache;
  std::string cache_problem;
  std::unique_ptr<Jit> jit;
  std::unique_ptr<Workers> workers;

  std::mutex mutex;                           // of what follows; held while a batch compiles
  std::map<std::string, KernelEntry> linked;  // by symbol
  CompileStats stats;

  // A kernel of the batch that is not in the process yet.
  struct Pending {
    const Source* source;
    KernelKey key;
    std::string symbol;
    std::string object;
    bool from_cache = false;
  };

  KernelKey key_of(const Source& source) const {
    if (const auto known = parse_key(source.key)) return *known;
    return key_of(source.text, source.entry);
  }

  KernelKey key_of(std::string_view text, std::string_view entry) const {
    return make_key({.text = text,
                     .entry = entry,
                     .triple = target.triple,
                     .cpu = target.cpu,
                     .features = target.features,
                     .compiler = compiler,
                     .pipeline = pipeline,
                     .version = kVersion});
  }

  void load_or_compile(Pending& kernel) {
    if (std::optional<std::string> object = cache->load(kernel.key)) {
      kernel.object = std::move(*object);
      kernel.from_cache = true;
    } else if (kernel.source->key.empty()) {
      kernel.object = compile_object(*kernel.source, kernel.symbol, target, codegen);
      cache->store(kernel.key, kernel.object);
    }
  }

  // REQUIRES: the mutex is held.
  void link(std::vector<Pending>& batch) {
    auto start = std::chrono::steady_clock::now();
    std::erase_if(batch, [](const Pending& kernel) { return kernel.object.empty(); });
    std::vector<Object> objects;
    for (const Pending& kernel : batch) objects.push_back({kernel.object, kernel.symbol});
    std::vector<KernelEntry> entries = jit->link(objects);
    for (size_t i = 0; i < batch.size(); ++i) {
      ENSURE(entries[i], "[jit] kernel " + batch[i].symbol + " does not link");
      linked[batch[i].symbol] = entries[i];
      ++(batch[i].from_cache ? stats.cached : stats.compiled);
    }
    stats.link_seconds += seconds_since(start);
  }
};

CpuDevice::CpuDevice() : state_(std::make_unique<State>()) {}
CpuDevice::~CpuDevice() = default;

Result<std::unique_ptr<CpuDevice>> CpuDevice::open(const CpuOptions& options) {
  std::unique_ptr<CpuDevice> device(new CpuDevice);
  State& state = *device->state_;
  state.codegen = options.codegen;
  state.target = options.target.value_or(host_target());
  state.compiler = "llvm " + llvm_version();
  state.pipeline = options.codegen.passes + " O" + std::to_string(options.codegen.level);
  SMELT_TRY(jit, Jit::create());
  state.jit = std::move(jit);
  state.workers =
      std::make_unique<Workers>(options.threads > 0 ? options.threads : state.target.cores);

  std::string folder = options.cache_dir;
  if (options.use_cache && folder.empty()) {
    Result<std::string> found = cache_folder();
    if (!found) state.cache_problem = found.error().message;
    if (found && !found->empty()) folder = *found + "/kernels";
  }
  state.cache = std::make_unique<KernelCache>(options.use_cache ? folder : "");
  if (options.use_cache && !folder.empty() && !state.cache->usable())
    state.cache_problem = "[cache] " + folder +
                          ": not a folder that belongs to you and to nobody else; kernels are "
                          "compiled anew each time";
  return device;
}

const CpuTarget& CpuDevice::target() const { return state_->target; }
Workers& CpuDevice::workers() { return *state_->workers; }
const std::string& CpuDevice::cache_problem() const { return state_->cache_problem; }

std::vector<KernelEntry> CpuDevice::compile(std::span<const Source> sources,
                                            const ProgressFn& progress,
                                            const std::atomic<bool>* cancel) {
  auto start = std::chrono::steady_clock::now();
  State& state = *state_;
  std::lock_guard lock(state.mutex);

  std::vector<std::string> symbols;
  std::vector<State::Pending> batch;
  std::set<std::string> in_batch;
  for (const Source& source : sources) {
    KernelKey key = state.key_of(source);
    symbols.push_back(symbol_of(source, key));
    if (state.linked.contains(symbols.back()) || !in_batch.insert(symbols.back()).second)
      ++state.stats.shared;
    else
      batch.push_back({&source, std::move(key), symbols.back(), {}});
  }

  std::mutex progress_mutex;
  int done = static_cast<int>(sources.size() - batch.size());
  for_each_in_parallel(batch.size(), state.workers->count(), [&](size_t i, int) {
    if (cancel && *cancel) return;
    state.load_or_compile(batch[i]);
    std::lock_guard progress_lock(progress_mutex);
    if (progress) progress(++done, static_cast<int>(sources.size()));
  });
  if (cancel && *cancel) return {};
  if (!batch.empty()) state.link(batch);

  std::vector<KernelEntry> entries;
  for (const std::string& symbol : symbols) {
    const auto found = state.linked.find(symbol);
    entries.push_back(found == state.linked.end() ? nullptr : found->second);
  }
  state.stats.code_bytes = state.jit->code_bytes() + state.jit->data_bytes();
  state.stats.seconds += seconds_since(start);
  return entries;
}

std::string CpuDevice::key_of(const Source& source) const {
  return format_key(state_->key_of(source));
}

std::optional<std::string> CpuDevice::recall(std::string_view question) const {
  return state_->cache->load(state_->key_of(question, kNote));
}

void CpuDevice::remember(std::string_view question, std::string_view answer) const {
  state_->cache->store(state_->key_of(question, kNote), answer);
}

std::string CpuDevice::assembly(const Source& source) const {
  return smelt::assembly(source, state_->target, state_->codegen);
}

CompileStats CpuDevice::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace smelt
