#include "runtime/cpu/cpu_device.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/ensure.h"
#include "base/machine_changes.h"
#include "runtime/available_memory.h"
#include "runtime/compile_batch.h"
#include "runtime/cpu/read_bandwidth.h"
#include "runtime/kernel_cache.h"
#include "runtime/llvm/jit.h"
#include "runtime/machines.h"
#include "runtime/memory.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// Part of every cache key: raise it when compile_object() makes something else of the same input.
constexpr std::string_view kVersion = "smelt-kernels-1";

// Different text, different symbol: any number of kernels with one entry name can be linked into
// one process.
std::string symbol_of(const Source& source, const KernelKey& key) { return source.entry + "." + key.hex(); }

struct CpuPlan : CapturedPlan {
  std::vector<CpuLaunch> launches;
};

}  // namespace

struct CpuDevice::State {
  CodegenOptions codegen;
  CpuTarget target;
  Machine machine;
  std::string compiler, pipeline;
  OpenedKernelCache cache;
  std::unique_ptr<Jit> jit;
  std::unique_ptr<Workers> workers;

  std::mutex mutex;                             // of what follows; held while a batch compiles
  std::map<std::string, CpuExecutable> linked;  // by symbol
  CompileStats stats;

  std::mutex running;
  std::mutex allocating;  // of what follows
  std::map<void*, Buffer> memory;
  const CpuExecutable reader{memory_reading_kernel()};

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
    if (std::optional<std::string> object = cache.kernels->load(kernel.key)) {
      kernel.object = std::move(*object);
      kernel.from_cache = true;
    } else if (kernel.source->key.empty()) {
      kernel.object = compile_object(*kernel.source, kernel.symbol, target, codegen);
      cache.kernels->store(kernel.key, kernel.object);
    }
  }

  // REQUIRES: the mutex is held.
  Status link(std::vector<Pending>& batch) {
    const auto start = Clock::now();
    std::erase_if(batch, [](const Pending& kernel) { return kernel.object.empty(); });
    std::vector<Object> objects;
    for (const Pending& kernel : batch) objects.push_back({kernel.object, kernel.symbol});
    std::vector<KernelEntry> entries = jit->link(objects);
    for (size_t i = 0; i < batch.size(); ++i) {
      if (!entries[i])
        return Error{"[jit] kernel " + batch[i].symbol +
                     ": cannot be linked; free memory, or raise its limit (ulimit -v)"};
      linked.emplace(batch[i].symbol, entries[i]);
      ++(batch[i].from_cache ? stats.cached : stats.compiled);
    }
    stats.link_seconds += seconds_since(start);
    return {};
  }
};

CpuDevice::CpuDevice() : state_(std::make_unique<State>()) {}
CpuDevice::~CpuDevice() = default;

Result<std::unique_ptr<CpuDevice>> CpuDevice::open(const CpuOptions& options) {
  std::unique_ptr<CpuDevice> device(new CpuDevice);
  State& state = *device->state_;
  state.codegen = options.codegen;
  state.target = options.target.value_or(host_target());
  state.machine = options.target ? machine_of(state.target) : host_machine();
  SMELT_CHECK(change(state.machine, options.changes));
  state.compiler = "llvm " + llvm_version();
  state.pipeline = options.codegen.passes + " O" + std::to_string(options.codegen.level);
  SMELT_TRY(jit, Jit::create());
  state.jit = std::move(jit);
  const int threads = options.threads > 0 ? options.threads : state.target.cores;
  state.workers = std::make_unique<Workers>(threads);
  if (state.workers->count() < threads)
    return Error{"[device] cpu: the system gives " + std::to_string(state.workers->count()) + " of " +
                 std::to_string(threads) + " threads; use fewer (-t), or raise its limits (ulimit -u, ulimit -v)"};

  state.cache = open_kernel_cache(options.cache_dir, options.use_cache);
  return device;
}

KernelEntry CpuDevice::entry_of(const Executable* kernel) {
  return kernel ? static_cast<const CpuExecutable*>(kernel)->entry : nullptr;
}

const Machine& CpuDevice::machine() const { return state_->machine; }
std::string CpuDevice::title() const { return state_->target.cpu; }
int CpuDevice::workers() const { return state_->workers->count(); }
std::string CpuDevice::shortcoming() const { return missing_instructions(state_->target); }
std::string CpuDevice::cache_problem() const { return state_->cache.problem; }
Result<const Executable*> CpuDevice::memory_reader() { return &state_->reader; }
uint64_t CpuDevice::available_memory() const { return smelt::available_memory(); }

Result<void*> CpuDevice::allocate(size_t bytes, std::string_view what) {
  Result<Buffer> buffer = Buffer::allocate(std::max<size_t>(bytes, 1));
  if (!buffer) return Error{buffer.error().message + " (for " + std::string(what) + ")"};
  void* data = buffer->data();
  std::lock_guard lock(state_->allocating);
  state_->memory[data] = buffer.take();
  return data;
}

void CpuDevice::release(void* memory, size_t) {
  std::lock_guard lock(state_->allocating);
  ENSURE(state_->memory.erase(memory) == 1, "memory that this device has not handed out");
}

Status CpuDevice::upload(void* to, std::span<const std::byte> from) {
  std::copy(from.begin(), from.end(), static_cast<std::byte*>(to));
  return {};
}

Status CpuDevice::read_back(std::span<std::byte> to, const void* from) {
  std::copy_n(static_cast<const std::byte*>(from), to.size(), to.begin());
  return {};
}

Result<std::unique_ptr<CapturedPlan>> CpuDevice::capture(std::span<const Launch> launches) {
  auto plan = std::make_unique<CpuPlan>();
  for (const Launch& l : launches) plan->launches.push_back({entry_of(l.kernel), l.buffers, l.shares, l.parts});
  return std::unique_ptr<CapturedPlan>(std::move(plan));
}

Status CpuDevice::run(const CapturedPlan& plan, std::span<const int64_t> symbols, const RunOptions& options) {
  std::lock_guard lock(state_->running);
  const auto& launches = static_cast<const CpuPlan&>(plan).launches;
  if (!state_->workers->run(launches, symbols.data(), options)) return Error{"[run] interrupted"};
  return {};
}

Result<std::vector<const Executable*>> CpuDevice::compile(std::span<const Source> sources, const ProgressFn& progress,
                                                          const std::atomic<bool>* cancel) {
  const auto start = Clock::now();
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

  const bool finished = compile_side_by_side(
      {.kernels = batch.size(), .known = sources.size() - batch.size(), .threads = state.workers->count()},
      [&](size_t i) { state.load_or_compile(batch[i]); }, progress, cancel);
  if (!finished) return std::vector<const Executable*>{};
  if (!batch.empty()) SMELT_CHECK(state.link(batch));

  std::vector<const Executable*> kernels;
  for (const std::string& symbol : symbols) {
    const auto found = state.linked.find(symbol);
    kernels.push_back(found == state.linked.end() ? nullptr : &found->second);
  }
  state.stats.code_bytes = state.jit->code_bytes() + state.jit->data_bytes();
  state.stats.seconds += seconds_since(start);
  return kernels;
}

std::string CpuDevice::key_of(const Source& source) const { return format_key(state_->key_of(source)); }

std::optional<std::string> CpuDevice::recall(std::string_view question) const {
  return state_->cache.kernels->load(state_->key_of(question, kNoteEntry));
}

void CpuDevice::remember(std::string_view question, std::string_view answer) const {
  state_->cache.kernels->store(state_->key_of(question, kNoteEntry), answer);
}

Assembly CpuDevice::linked_assembly(const Source& source) const {
  return smelt::linked_assembly(source, state_->target, state_->codegen);
}

std::string CpuDevice::assembly(const Source& source) const {
  return smelt::assembly(source, state_->target, state_->codegen);
}

CompileStats CpuDevice::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace smelt
