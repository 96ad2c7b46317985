#include "runtime/metal_shim/metal_shim_device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/ensure.h"
#include "base/machine_changes.h"
#include "runtime/available_memory.h"
#include "runtime/compile_batch.h"
#include "runtime/kernel_cache.h"
#include "runtime/llvm/jit.h"
#include "runtime/memory.h"
#include "runtime/metal_shim/compile.h"
#include "runtime/metal_shim/threadgroup.h"
#include "runtime/packed_kernel.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// Part of every cache key: raise it when compile_msl() makes something else of the same input.
constexpr std::string_view kVersion = "smelt-metal-shim-1";

constexpr const char* kMachine = "m3-max";
constexpr int64_t kPlayedParts = 3;  // of a launch, where it has the choice: some, so that sharing out is looked at

struct ShimExecutable : Executable {
  ShimKernel kernel;
};

struct ShimPlan : CapturedPlan {
  std::vector<Launch> launches;
};

}  // namespace

struct MetalShimDevice::State {
  ShimCompiler compiler;
  Machine machine;
  OpenedKernelCache cache;
  std::unique_ptr<Jit> jit;

  std::mutex compiling;                           // of what follows; held while a batch compiles
  std::map<std::string, ShimExecutable> kernels;  // by key
  CompileStats stats;

  std::mutex running;  // of memory, too
  std::map<void*, Buffer> memory;
  std::map<void*, std::string> uses;
  MemoryChecks checks;

  struct Pending {
    const Source* source;
    KernelKey key;
    std::string entry;  // as the cache keeps it
    bool from_cache = false;
    Status problem = {};
  };

  KernelKey key_of(const Source& source) const {
    if (const auto known = parse_key(source.key)) return *known;
    return key_of(source.text + text_of(source.shape), source.entry);
  }

  KernelKey key_of(std::string_view text, std::string_view entry) const {
    return make_key({.text = text,
                     .entry = entry,
                     .triple = host_target().triple,
                     .cpu = host_target().cpu,
                     .features = host_target().features,
                     .compiler = compiler.version,
                     .pipeline = {},
                     .version = kVersion});
  }

  static std::string symbol_of(const KernelKey& key) { return "metal." + key.hex(); }

  // In any thread.
  void load_or_compile(Pending& kernel) const {
    if (std::optional<std::string> entry = cache.kernels->load(kernel.key)) {
      kernel.entry = std::move(*entry);
      kernel.from_cache = true;
    } else if (kernel.source->key.empty()) {
      const auto object = compile_msl(compiler, {kernel.source, 1}, symbol_of(kernel.key));
      if (!object) return void(kernel.problem = object.error());
      kernel.entry = pack({kernel.source->shape, *object});
      cache.kernels->store(kernel.key, kernel.entry);
    }
  }

  Status link(const Pending& kernel) {
    const PackedKernel packed = unpack(kernel.entry);
    const std::string symbol = symbol_of(kernel.key);
    const Object object{packed.code, symbol};
    const KernelEntry linked = jit->link({&object, 1})[0];
    if (!linked)
      return Error{
          "[metal-shim] kernel " + kernel.source->entry +
          ": it cannot be linked; a processor with half floats (x86-64-v3 or AArch64) and clang 19 are wanted"};
    ShimExecutable made;
    made.kernel = {shim_entry(linked), 0, packed.shape, kernel.source->entry};
    kernels.emplace(kernel.key.hex(), std::move(made));
    ++(kernel.from_cache ? stats.cached : stats.compiled);
    return {};
  }

  std::vector<MemoryRegion> regions() const {
    std::vector<MemoryRegion> all;
    for (const auto& [data, buffer] : memory) all.push_back({uses.at(data), buffer.data(), buffer.size()});
    return all;
  }

  Status launch(const Launch& l, std::span<const int64_t> symbols) {
    const ShimKernel& kernel = static_cast<const ShimExecutable*>(l.kernel)->kernel;
    const int64_t parts = l.parts > 0 ? l.parts : std::clamp<int64_t>(kernel.shape.tasks, 1, kPlayedParts);
    std::vector<void*> buffers;
    for (int b = 0; b < kernel.shape.buffers; ++b) buffers.push_back(const_cast<void*>(l.buffers[b]));
    return run_checked(
        {.kernel = &kernel, .buffers = buffers, .symbols = symbols, .parts = static_cast<uint32_t>(parts)}, regions(),
        checks);
  }
};

MetalShimDevice::MetalShimDevice() : state_(std::make_unique<State>()) {}
MetalShimDevice::~MetalShimDevice() = default;

Result<std::unique_ptr<MetalShimDevice>> MetalShimDevice::open(const MetalShimOptions& options) {
  std::unique_ptr<MetalShimDevice> device(new MetalShimDevice);
  State& state = *device->state_;
  SMELT_TRY(compiler, find_shim_compiler());
  state.compiler = std::move(compiler);
  state.machine = *known_machine(kMachine);
  SMELT_CHECK(change(state.machine, options.changes));
  SMELT_TRY(jit, Jit::create(shim_calls()));
  state.jit = std::move(jit);
  state.cache = open_kernel_cache(options.cache_dir, options.use_cache);
  return device;
}

std::string MetalShimDevice::title() const { return state_->machine.title + ", played by the processor"; }
const Machine& MetalShimDevice::machine() const { return state_->machine; }
uint64_t MetalShimDevice::available_memory() const { return smelt::available_memory(); }
std::string MetalShimDevice::cache_problem() const { return state_->cache.problem; }

Result<void*> MetalShimDevice::allocate(size_t bytes, std::string_view what) {
  Result<Buffer> buffer = Buffer::allocate(std::max<size_t>(bytes, 1));
  if (!buffer) return Error{buffer.error().message + " (for " + std::string(what) + ")"};
  void* data = buffer->data();
  std::lock_guard lock(state_->running);
  state_->memory[data] = buffer.take();
  state_->uses[data] = what;
  return data;
}

void MetalShimDevice::release(void* memory, size_t) {
  std::lock_guard lock(state_->running);
  state_->uses.erase(memory);
  ENSURE(state_->memory.erase(memory) == 1, "memory that this device has not handed out");
}

Status MetalShimDevice::upload(void* to, std::span<const std::byte> from) {
  std::copy(from.begin(), from.end(), static_cast<std::byte*>(to));
  return {};
}

Status MetalShimDevice::read_back(std::span<std::byte> to, const void* from) {
  std::copy_n(static_cast<const std::byte*>(from), to.size(), to.begin());
  return {};
}

Result<std::vector<const Executable*>> MetalShimDevice::compile(std::span<const Source> sources,
                                                                const ProgressFn& progress,
                                                                const std::atomic<bool>* cancel) {
  const auto start = Clock::now();
  State& state = *state_;
  std::lock_guard lock(state.compiling);
  std::map<std::string, State::Pending> batch;  // by key
  std::vector<std::string> keys;
  for (const Source& source : sources) {
    KernelKey key = state.key_of(source);
    keys.push_back(key.hex());
    const bool is_new = !state.kernels.contains(keys.back()) &&
                        batch.try_emplace(keys.back(), State::Pending{&source, std::move(key), {}}).second;
    if (!is_new) ++state.stats.shared;
  }
  std::vector<State::Pending*> wanted;
  for (auto& [key, kernel] : batch) wanted.push_back(&kernel);
  const bool finished = compile_side_by_side(
      {.kernels = wanted.size(), .known = sources.size() - wanted.size(), .threads = thread_count(0)},
      [&](size_t i) { state.load_or_compile(*wanted[i]); }, progress, cancel);
  if (!finished) return std::vector<const Executable*>{};
  for (const State::Pending* kernel : wanted) {
    SMELT_CHECK(kernel->problem);
    if (!kernel->entry.empty()) SMELT_CHECK(state.link(*kernel));
  }
  std::vector<const Executable*> kernels;
  for (const std::string& key : keys) {
    const auto found = state.kernels.find(key);
    kernels.push_back(found == state.kernels.end() ? nullptr : &found->second);
  }
  state.stats.code_bytes = state.jit->code_bytes() + state.jit->data_bytes();
  state.stats.seconds += seconds_since(start);
  return kernels;
}

std::string MetalShimDevice::key_of(const Source& source) const { return format_key(state_->key_of(source)); }

std::optional<std::string> MetalShimDevice::recall(std::string_view question) const {
  return state_->cache.kernels->load(state_->key_of(question, kNoteEntry));
}

void MetalShimDevice::remember(std::string_view question, std::string_view answer) const {
  state_->cache.kernels->store(state_->key_of(question, kNoteEntry), answer);
}

CompileStats MetalShimDevice::stats() const {
  std::lock_guard lock(state_->compiling);
  return state_->stats;
}

Result<const Executable*> MetalShimDevice::memory_reader() {
  return Error{"[metal-shim] it plays a GPU, and times of it say nothing; use --machine for estimates"};
}

Result<std::unique_ptr<CapturedPlan>> MetalShimDevice::capture(std::span<const Launch> launches) {
  auto plan = std::make_unique<ShimPlan>();
  plan->launches.assign(launches.begin(), launches.end());
  return std::unique_ptr<CapturedPlan>(std::move(plan));
}

Status MetalShimDevice::run(const CapturedPlan& plan, std::span<const int64_t> symbols, const RunOptions& options) {
  std::lock_guard lock(state_->running);
  const auto start = Clock::now();
  const auto note_time = [&](size_t i) {
    if (!options.times_ns.empty()) options.times_ns[i] = static_cast<int64_t>(seconds_since(start) * 1e9);
  };
  note_time(0);
  const std::vector<Launch>& launches = static_cast<const ShimPlan&>(plan).launches;
  for (size_t i = 0; i < launches.size(); ++i) {
    if (options.cancel && options.cancel->load(std::memory_order_relaxed)) return Error{"[run] interrupted"};
    SMELT_CHECK(state_->launch(launches[i], symbols));
    note_time(i + 1);
  }
  return {};
}

}  // namespace smelt
