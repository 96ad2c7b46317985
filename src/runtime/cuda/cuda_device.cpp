#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/ensure.h"
#include "base/machine_changes.h"
#include "base/progress.h"
#include "runtime/compiling_device.h"
#include "runtime/cuda/assemble.h"
#include "runtime/cuda/memory_reader.h"
#include "runtime/cuda/plan.h"
#include "runtime/cuda/runs.h"
#include "runtime/cuda/staging.h"
#include "runtime/launch_blocks.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/ptx.h"
#include "runtime/packed_kernel.h"

namespace smelt {
namespace {

// Part of every cache key: raise it when make_entry() makes something else of the same input.
constexpr const char* kVersion = "smelt-cuda-3";

constexpr const char* kTriple = "nvptx64-nvidia-cuda";

std::string upper_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

struct State {
  std::unique_ptr<CudaContext> context;
  std::unique_ptr<CudaStaging> staging;
  Machine machine;
  CudaSymbols symbols;
  std::string architecture;

  std::mutex running;  // of the stream and the staging memory, and of what follows
  CudaRuns runs;

  std::vector<CuModule> modules;
  size_t code_bytes = 0;

  const CudaDriver& driver() const { return context->driver(); }
  Status check(CuResult result, const std::string& doing) const { return context->check(result, doing); }

  Status prepare_symbols() {
    SMELT_CHECK(
        check(driver().allocate(&symbols.device, CudaSymbols::kMost * sizeof(int64_t)), "allocating launch values"));
    return runs.prepare(*context, symbols.device);
  }

  Status clear(CuAddress memory, size_t bytes, const std::string& doing) {
    std::lock_guard lock(running);
    SMELT_CHECK(check(driver().fill(memory, 0, bytes, context->stream()), doing));
    return context->wait(doing);
  }

  Result<CudaExecutable> load(const std::string& name, const PackedKernel& packed) {
    const std::string doing = "loading kernel " + name;
    CuModule module = nullptr;
    SMELT_CHECK(check(driver().module_load(&module, packed.code.data(), 0, nullptr, nullptr), doing));
    modules.push_back(module);
    CudaExecutable made;
    made.shape = packed.shape;
    SMELT_CHECK(check(driver().module_function(&made.function, module, name.c_str()), doing));
    made.shape.shared_bytes = std::max(made.shape.shared_bytes, spreading_bytes(made.shape));
    SMELT_CHECK(give_shared_memory(made, name));
    int resident = 0;  // on a multiprocessor
    SMELT_CHECK(check(driver().blocks_per_processor(&resident, made.function, made.shape.threads,
                                                    static_cast<size_t>(made.shape.shared_bytes)),
                      doing));
    const int64_t most = std::clamp(int64_t{resident} * context->properties().processors, int64_t{1}, kMostParts);
    made.blocks = static_cast<unsigned>(blocks_for(made.shape, most));
    code_bytes += packed.code.size();
    return made;
  }

  int64_t spreading_bytes(const LaunchShape& shape) const {
    if (!shape.overlaps || shape.blocks == 0) return 0;
    const CudaProperties& p = context->properties();
    return std::min<int64_t>(
        smelt::spreading_bytes(shape.blocks, p.processors, {p.processor_shared_bytes, p.block_reserved_bytes}),
        p.block_shared_bytes);
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
    runs.release();
    if (symbols.device) driver().release(symbols.device);
    staging.reset();
  }
};

class CudaDevice : public CompilingDevice {
 public:
  static Result<std::unique_ptr<Device>> open(const CudaDriver& driver, const CudaOptions& options) {
    auto device = std::make_unique<CudaDevice>();
    State& state = device->state_;
    SMELT_TRY(context, CudaContext::open(driver, options.ordinal));
    state.context = std::move(context);
    const CudaProperties& p = state.context->properties();
    state.architecture = ptx_architecture(p.major, p.minor);
    if (state.architecture.empty())
      return Error{"[cuda] " + p.name() + " (" + p.title + "): compute capability " + std::to_string(p.major) + "." +
                   std::to_string(p.minor) + " is too old, kernels need 7.5; use --device cpu"};
    int version = 0;
    SMELT_CHECK(driver.check(driver.version(&version), "asking for the driver's version"));
    state.machine = machine_of(p);
    SMELT_CHECK(change(state.machine, options.changes));
    SMELT_TRY(staging, CudaStaging::make(*state.context));
    state.staging = std::move(staging);
    SMELT_CHECK(state.prepare_symbols());
    device->set_up({.triple = kTriple,
                    .cpu = state.architecture,
                    .features = p.title,  // PTX of one architecture may be made for a newer one
                    .compiler = "llvm " + llvm_version() + ", driver " + std::to_string(version),
                    .pipeline = ptx_pipeline(),
                    .version = kVersion,
                    .threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency())),
                    .cache_dir = options.cache_dir,
                    .use_cache = options.use_cache});
    return std::unique_ptr<Device>(std::move(device));
  }

  bool host_sees_memory() const override { return false; }
  std::string name() const override { return state_.context->properties().name(); }
  std::string title() const override { return state_.context->properties().title; }
  const Machine& machine() const override { return state_.machine; }
  int workers() const override { return state_.context->properties().processors; }
  int timed_workers() const override { return workers(); }

  uint64_t available_memory() const override {
    size_t free = 0, total = 0;
    const State& state = state_;
    if (!state.context->enter() || state.driver().memory_info(&free, &total) != 0) return 0;
    return free;
  }

  Result<void*> allocate(size_t bytes, std::string_view what) override {
    State& state = state_;
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

  void release(void* memory, size_t) override {
    if (!state_.context->enter()) return;
    state_.driver().release(reinterpret_cast<CuAddress>(memory));
  }

  Status upload(void* to, std::span<const std::byte> from) override {
    std::lock_guard lock(state_.running);
    SMELT_CHECK(state_.context->enter());
    return state_.staging->copy_in(reinterpret_cast<CuAddress>(to), from);
  }

  Status clear(void* to, size_t bytes) override {
    State& state = state_;
    std::lock_guard lock(state.running);
    SMELT_CHECK(state.context->enter());
    const auto memory = reinterpret_cast<CuAddress>(to);
    return state.check(state.driver().fill(memory, 0, bytes, state.context->stream()), "clearing memory");
  }

  Status read_back(std::span<std::byte> to, const void* from) override {
    std::lock_guard lock(state_.running);
    SMELT_CHECK(state_.context->enter());
    return state_.staging->copy_out(to, reinterpret_cast<CuAddress>(from));
  }

  Result<std::string> make_entry(const Source& source, const KernelKey&) const override {
    SMELT_CHECK(state_.context->enter());
    SMELT_TRY(cubin, assemble(*state_.context, source.entry, compile_ptx(source, state_.architecture)));
    return pack({source.shape, cubin});
  }

  Status link(std::span<const Pending> batch) override {
    SMELT_CHECK(state_.context->enter());
    for (const Pending& kernel : batch) {
      SMELT_TRY(made, state_.load(kernel.source->entry, unpack(kernel.entry)));
      keep(kernel, std::make_unique<CudaExecutable>(made));
    }
    return {};
  }

  size_t code_bytes() const override { return state_.code_bytes; }

  Assembly linked_assembly(const Source& source) const override { return linked_ptx(source, state_.architecture); }
  std::string assembly(const Source& source) const override { return compile_ptx(source, state_.architecture); }

  Result<const Executable*> memory_reader() override {
    const Source source = cuda_memory_reader(state_.context->properties().processors);
    SMELT_TRY(kernels, compile({&source, 1}));
    return kernels[0];
  }

  Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) override {
    State& state = state_;
    std::lock_guard lock(state.running);
    SMELT_CHECK(state.context->enter());
    SMELT_TRY(plan, CudaPlan::capture(*state.context, state.symbols, launches));
    return std::unique_ptr<CapturedPlan>(std::move(plan));
  }

  bool runs_ahead() const override { return true; }
  int64_t runs_under_way() const override { return CudaRuns::kMost; }

  Result<uint64_t> start(const CapturedPlan& captured, std::span<const int64_t> symbols,
                         const RunOptions& options) override {
    State& state = state_;
    ENSURE(symbols.size() <= CudaSymbols::kMost, "more launch values than there is room for");
    const auto& plan = static_cast<const CudaPlan&>(captured);
    std::lock_guard lock(state.running);
    if (options.cancel && options.cancel->load(std::memory_order_relaxed)) return Error{"[run] interrupted"};
    SMELT_CHECK(state.context->enter());
    SMELT_CHECK(state.runs.begin(symbols));
    SMELT_CHECK(options.times_ns.empty() ? plan.start() : plan.run_timed(options.times_ns, options.arrivals_ns));
    return state.runs.end(options.read_back);
  }

  Status wait(uint64_t run) override {
    std::lock_guard lock(state_.running);
    SMELT_CHECK(state_.context->enter());
    return state_.runs.wait(run);
  }

 private:
  State state_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(const CudaDriver& driver, const CudaOptions& options) {
  return CudaDevice::open(driver, options);
}

// What the driver says of the GPU; the rest as of one that we know: the one of its name, or the first.
Machine machine_of(const CudaProperties& p) {
  Machine m = *known_machine("h100");
  for (const Machine& known : known_machines())
    if (known.isa == Isa::Nvidia && p.title.find(upper_case(known.name)) != std::string::npos) m = known;
  m.name = "sm_" + std::to_string(10 * p.major + p.minor);
  m.title = p.title;
  m.target = ptx_architecture(p.major, p.minor);
  m.processors = p.processors;
  m.processor_blocks = p.processor_blocks;
  m.processor_threads = p.processor_threads;
  m.block_threads = p.block_threads;
  m.warp_threads = p.warp_threads;
  m.processor_registers = p.processor_registers;
  m.l1_bytes = p.processor_shared_bytes;
  m.l2_bytes = m.cache_bytes = p.l2_bytes;
  m.memory_bytes = static_cast<int64_t>(p.memory_bytes);
  m.block_memory_bytes = p.block_shared_bytes;
  m.processor_memory_bytes = p.processor_shared_bytes;
  m.tasks = p.processors;
  m.overlaps_launches = p.major >= 9;
  if (p.major < 9) m.task_copy_bytes = 0;
  // Two blocks share a processor's memory.
  m.ring_bytes = std::min(m.ring_bytes, int64_t{p.processor_shared_bytes} * 3 / 7);
  if (p.major < 8) {
    m.matrix_units.clear();  // its unit has other shapes
    m.ring_bytes = 0;        // nor does it copy by itself
  }
  return m;
}

}  // namespace smelt
