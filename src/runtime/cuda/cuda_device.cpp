#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/ensure.h"
#include "base/machine_changes.h"
#include "base/progress.h"
#include "runtime/compile_batch.h"
#include "runtime/cuda/assemble.h"
#include "runtime/cuda/memory_reader.h"
#include "runtime/cuda/plan.h"
#include "runtime/cuda/staging.h"
#include "runtime/kernel_cache.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/ptx.h"
#include "runtime/packed_kernel.h"

namespace smelt {
namespace {

// Part of every cache key: raise it when compile() makes something else of the same input.
constexpr std::string_view kVersion = "smelt-cuda-1";

constexpr const char* kTriple = "nvptx64-nvidia-cuda";

std::string upper_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Blocks of a launch, of `most` that the GPU holds. Those that keep something on chip make it anew each: so no more of
// them than change how many tasks the busiest one has.
int64_t blocks_for(const LaunchShape& shape, int64_t most) {
  const int64_t tasks = std::max<int64_t>(shape.tasks, 1), blocks = std::min(tasks, most);
  if (shape.shared_bytes == 0) return blocks;
  const int64_t rounds = (tasks + blocks - 1) / blocks;
  return (tasks + rounds - 1) / rounds;
}

}  // namespace

struct CudaDevice::State {
  std::unique_ptr<CudaContext> context;
  std::unique_ptr<CudaStaging> staging;
  Machine machine;
  CudaSymbols symbols;
  std::string architecture, compiler, pipeline;
  OpenedKernelCache cache;

  std::mutex running;  // of the stream and the staging memory

  std::mutex compiling;                           // of what follows; held while a batch compiles
  std::map<std::string, CudaExecutable> kernels;  // by key
  std::vector<CuModule> modules;
  CompileStats stats;

  // A kernel of the batch that is not loaded yet.
  struct Pending {
    const Source* source;
    KernelKey key;
    std::string entry;  // as the cache keeps it
    bool from_cache = false;
    Status problem = {};
  };

  const CudaDriver& driver() const { return context->driver(); }
  Status check(CuResult result, const std::string& doing) const { return context->check(result, doing); }

  KernelKey key_of(const Source& source) const {
    if (const auto known = parse_key(source.key)) return *known;
    return key_of(source.text + text_of(source.shape), source.entry);
  }

  KernelKey key_of(std::string_view text, std::string_view entry) const {
    return make_key({.text = text,
                     .entry = entry,
                     .triple = kTriple,
                     .cpu = architecture,
                     .features = context->properties().title,  // PTX of one architecture may be made for a newer one
                     .compiler = compiler,
                     .pipeline = pipeline,
                     .version = kVersion});
  }

  Status prepare_symbols() {
    SMELT_CHECK(
        check(driver().allocate(&symbols.device, CudaSymbols::kMost * sizeof(int64_t)), "allocating launch values"));
    void* pinned = nullptr;
    SMELT_CHECK(
        check(driver().allocate_pinned(&pinned, CudaSymbols::kMost * sizeof(int64_t), 0), "pinning launch values"));
    symbols.pinned = static_cast<int64_t*>(pinned);
    std::fill_n(symbols.pinned, CudaSymbols::kMost, 0);
    return {};
  }

  Status clear(CuAddress memory, size_t bytes, const std::string& doing) {
    std::lock_guard lock(running);
    SMELT_CHECK(check(driver().fill(memory, 0, bytes, context->stream()), doing));
    return context->wait(doing);
  }

  // In any thread.
  void load_or_compile(Pending& kernel) const {
    if (std::optional<std::string> entry = cache.kernels->load(kernel.key)) {
      kernel.entry = std::move(*entry);
      kernel.from_cache = true;
    } else if (kernel.source->key.empty()) {
      const Status entered = context->enter();
      if (!entered) return void(kernel.problem = entered);
      auto cubin = assemble(*context, kernel.source->entry, compile_ptx(*kernel.source, architecture));
      if (!cubin) return void(kernel.problem = cubin.error());
      kernel.entry = pack({kernel.source->shape, *cubin});
      cache.kernels->store(kernel.key, kernel.entry);
    }
  }

  Status load(const Pending& kernel) {
    const PackedKernel unpacked = unpack(kernel.entry);
    const std::string doing = "loading kernel " + kernel.source->entry;
    CuModule module = nullptr;
    SMELT_CHECK(check(driver().module_load(&module, unpacked.code.data(), 0, nullptr, nullptr), doing));
    modules.push_back(module);
    CudaExecutable made;
    made.shape = unpacked.shape;
    SMELT_CHECK(check(driver().module_function(&made.function, module, kernel.source->entry.c_str()), doing));
    SMELT_CHECK(give_shared_memory(made, kernel.source->entry));
    int resident = 0;  // on a multiprocessor
    SMELT_CHECK(check(driver().blocks_per_processor(&resident, made.function, made.shape.threads,
                                                    static_cast<size_t>(made.shape.shared_bytes)),
                      doing));
    const int64_t most = std::clamp(int64_t{resident} * context->properties().processors, int64_t{1}, kMostParts);
    made.blocks = static_cast<unsigned>(blocks_for(made.shape, most));
    kernels.emplace(kernel.key.hex(), made);
    stats.code_bytes += unpacked.code.size();
    ++(kernel.from_cache ? stats.cached : stats.compiled);
    return {};
  }

  Status give_shared_memory(const CudaExecutable& kernel, const std::string& name) const {
    const int64_t most = context->properties().block_shared_bytes;
    if (kernel.shape.shared_bytes > most)
      return Error{"[cuda] " + context->properties().name() + ": kernel " + name + " needs " +
                   std::to_string(kernel.shape.shared_bytes) + " bytes of on-chip memory for a block, the GPU has " +
                   std::to_string(most)};
    if (kernel.shape.shared_bytes == 0) return {};
    return check(
        driver().function_set(kernel.function, Cu::kDynamicSharedBytes, static_cast<int>(kernel.shape.shared_bytes)),
        "giving on-chip memory to kernel " + name);
  }

  ~State() {
    if (!context) return;
    if (!context->enter()) return;
    for (CuModule module : modules) driver().module_unload(module);
    if (symbols.pinned) driver().release_pinned(symbols.pinned);
    if (symbols.device) driver().release(symbols.device);
    staging.reset();
  }
};

CudaDevice::CudaDevice() : state_(std::make_unique<State>()) {}
CudaDevice::~CudaDevice() = default;

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const CudaDriver& driver, const CudaOptions& options) {
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  State& state = *device->state_;
  SMELT_TRY(context, CudaContext::open(driver, options.ordinal));
  state.context = std::move(context);
  const CudaProperties& p = state.context->properties();
  state.architecture = ptx_architecture(p.major, p.minor);
  if (state.architecture.empty())
    return Error{"[cuda] " + p.name() + " (" + p.title + "): compute capability " + std::to_string(p.major) + "." +
                 std::to_string(p.minor) + " is too old, kernels need 7.5; use --device cpu"};
  int version = 0;
  SMELT_CHECK(driver.check(driver.version(&version), "asking for the driver's version"));
  state.compiler = "llvm " + llvm_version() + ", driver " + std::to_string(version);
  state.pipeline = ptx_pipeline();
  state.machine = machine_of(p);
  SMELT_CHECK(change(state.machine, options.changes));
  SMELT_TRY(staging, CudaStaging::make(*state.context));
  state.staging = std::move(staging);
  SMELT_CHECK(state.prepare_symbols());
  state.cache = open_kernel_cache(options.cache_dir, options.use_cache);
  return device;
}

std::string CudaDevice::name() const { return state_->context->properties().name(); }
std::string CudaDevice::title() const { return state_->context->properties().title; }
const Machine& CudaDevice::machine() const { return state_->machine; }
int CudaDevice::workers() const { return state_->context->properties().processors; }
std::string CudaDevice::cache_problem() const { return state_->cache.problem; }

uint64_t CudaDevice::available_memory() const {
  size_t free = 0, total = 0;
  const State& state = *state_;
  if (!state.context->enter() || state.driver().memory_info(&free, &total) != 0) return 0;
  return free;
}

Result<void*> CudaDevice::allocate(size_t bytes, std::string_view what) {
  State& state = *state_;
  const std::string doing = "allocating " + bytes_text(bytes) + " for " + std::string(what);
  SMELT_CHECK(state.context->enter());
  CuAddress memory = 0;
  const CuResult result = state.driver().allocate(&memory, std::max<size_t>(bytes, 1));
  if (result == Cu::kOutOfMemory)
    return Error{"[cuda] " + name() + ": " + doing + ": there is not so much: " + bytes_text(available_memory()) +
                 " of " + bytes_text(state.context->properties().memory_bytes) +
                 " are free; use a smaller context (-c) or another device"};
  SMELT_CHECK(state.check(result, doing));
  const Status cleared = state.clear(memory, bytes, doing);
  if (cleared) return reinterpret_cast<void*>(memory);
  state.driver().release(memory);
  return cleared.error();
}

void CudaDevice::release(void* memory, size_t) {
  if (!state_->context->enter()) return;
  state_->driver().release(reinterpret_cast<CuAddress>(memory));
}

Status CudaDevice::upload(void* to, std::span<const std::byte> from) {
  std::lock_guard lock(state_->running);
  SMELT_CHECK(state_->context->enter());
  return state_->staging->copy_in(reinterpret_cast<CuAddress>(to), from);
}

Status CudaDevice::read_back(std::span<std::byte> to, const void* from) {
  std::lock_guard lock(state_->running);
  SMELT_CHECK(state_->context->enter());
  return state_->staging->copy_out(to, reinterpret_cast<CuAddress>(from));
}

Result<std::vector<const Executable*>> CudaDevice::compile(std::span<const Source> sources, const ProgressFn& progress,
                                                           const std::atomic<bool>* cancel) {
  const auto start = Clock::now();
  State& state = *state_;
  std::lock_guard lock(state.compiling);
  std::vector<std::string> keys;
  std::vector<State::Pending> batch;
  for (const Source& source : sources) {
    KernelKey key = state.key_of(source);
    const bool is_known =
        state.kernels.contains(key.hex()) || std::find(keys.begin(), keys.end(), key.hex()) != keys.end();
    keys.push_back(key.hex());
    if (is_known)
      ++state.stats.shared;
    else
      batch.push_back({.source = &source, .key = std::move(key), .entry = {}});
  }

  const auto threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const bool finished = compile_side_by_side(
      {.kernels = batch.size(), .known = sources.size() - batch.size(), .threads = threads},
      [&](size_t i) { state.load_or_compile(batch[i]); }, progress, cancel);
  if (!finished) return std::vector<const Executable*>{};

  SMELT_CHECK(state.context->enter());
  const auto link_start = Clock::now();
  for (const State::Pending& kernel : batch) {
    SMELT_CHECK(kernel.problem);
    if (!kernel.entry.empty()) SMELT_CHECK(state.load(kernel));
  }
  state.stats.link_seconds += seconds_since(link_start);
  std::vector<const Executable*> kernels;
  for (const std::string& key : keys) {
    const auto found = state.kernels.find(key);
    kernels.push_back(found == state.kernels.end() ? nullptr : &found->second);
  }
  state.stats.seconds += seconds_since(start);
  return kernels;
}

std::string CudaDevice::key_of(const Source& source) const { return format_key(state_->key_of(source)); }

std::optional<std::string> CudaDevice::recall(std::string_view question) const {
  return state_->cache.kernels->load(state_->key_of(question, kNoteEntry));
}

void CudaDevice::remember(std::string_view question, std::string_view answer) const {
  state_->cache.kernels->store(state_->key_of(question, kNoteEntry), answer);
}

Assembly CudaDevice::linked_assembly(const Source& source) const { return linked_ptx(source, state_->architecture); }
std::string CudaDevice::assembly(const Source& source) const { return compile_ptx(source, state_->architecture); }

CompileStats CudaDevice::stats() const {
  std::lock_guard lock(state_->compiling);
  return state_->stats;
}

Result<const Executable*> CudaDevice::memory_reader() {
  const Source source = cuda_memory_reader(state_->context->properties().processors);
  SMELT_TRY(kernels, compile({&source, 1}));
  return kernels[0];
}

Result<std::unique_ptr<CapturedPlan>> CudaDevice::capture(std::span<const Launch> launches) {
  State& state = *state_;
  std::lock_guard lock(state.running);
  SMELT_CHECK(state.context->enter());
  SMELT_TRY(plan, CudaPlan::capture(*state.context, state.symbols, launches));
  return std::unique_ptr<CapturedPlan>(std::move(plan));
}

Status CudaDevice::run(const CapturedPlan& captured, std::span<const int64_t> symbols, const RunOptions& options) {
  State& state = *state_;
  ENSURE(symbols.size() <= CudaSymbols::kMost, "more launch values than there is room for");
  const auto& plan = static_cast<const CudaPlan&>(captured);
  std::lock_guard lock(state.running);
  if (options.cancel && options.cancel->load(std::memory_order_relaxed)) return Error{"[run] interrupted"};
  SMELT_CHECK(state.context->enter());
  std::copy(symbols.begin(), symbols.end(), state.symbols.pinned);
  if (!options.times_ns.empty()) return plan.run_timed(options.times_ns);
  SMELT_CHECK(plan.start());
  return state.context->wait("running a plan");
}

// What the driver says of the GPU, and where its name is one that we know, what was measured on such a one.
Machine machine_of(const CudaProperties& p) {
  Machine m;
  for (const Machine& known : known_machines())
    if (known.isa == Isa::Nvidia && p.title.find(upper_case(known.name)) != std::string::npos) m = known;
  m.name = "sm_" + std::to_string(10 * p.major + p.minor);
  m.title = p.title;
  m.target = ptx_architecture(p.major, p.minor);
  m.parallelism = Parallelism::Threads;
  m.isa = Isa::Nvidia;
  m.processors = p.processors;
  m.processor_blocks = p.processor_blocks;
  m.processor_threads = p.processor_threads;
  m.block_threads = p.block_threads;
  m.warp_threads = p.warp_threads;
  m.vector_bytes = 16;
  m.registers = 255;
  m.processor_registers = p.processor_registers;
  m.line_bytes = 128;
  m.l1_bytes = p.processor_shared_bytes;
  m.l2_bytes = p.l2_bytes;
  m.l3_bytes = 0;
  m.memory_bytes = static_cast<int64_t>(p.memory_bytes);
  m.block_memory_bytes = p.block_shared_bytes;
  m.processor_memory_bytes = p.processor_shared_bytes;
  m.stack_bytes = 0;
  m.byte_dot = ByteDot::Dp4a;
  m.byte_dot_bytes = 4;
  m.shuffle_bytes = 0;
  m.tasks = p.processors;
  m.local_operations = 4 << 10;  // blocks are many, and each would take its time from the others of a processor
  m.row_bytes = 16 << 10;
  m.small_kernel_operations = 1 << 20;
  m.small_kernel_local_operations = 64 << 10;  // there blocks are few, and one launch less is what counts
  m.tile_bytes = 8 << 10;                      // so that a multiprocessor holds several tiles
  m.chunk_tasks = 10;  // each reads the cache again, from L2; below that most processors idle at a short context
  return m;
}

}  // namespace smelt
