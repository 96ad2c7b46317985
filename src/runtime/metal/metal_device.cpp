#include "runtime/metal/metal_device.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "base/ensure.h"
#include "base/machine_changes.h"
#include "base/parallel.h"
#include "runtime/host_memory_device.h"
#include "runtime/launch_blocks.h"
#include "runtime/metal/memory_reader.h"
#include "runtime/metal/plan.h"
#include "runtime/metal/queue.h"
#include "runtime/packed_kernel.h"

namespace smelt {
namespace {

// Part of every cache key: raise it when make_entry() makes something else of the same input.
constexpr const char* kVersion = "smelt-metal-2";

constexpr const char* kNewest = "m4-max";  // what a GPU that is younger than this program is taken for
constexpr size_t kMostSymbols = 32;

// "Apple M3 Max" of "Apple M3 Max, GPU of 40 cores".
std::string chip_of(const std::string& title) { return title.substr(0, title.find(',')); }

std::string label_of(const KernelKey& key) { return "metal." + key.hex(); }

// What the cache keeps of a kernel is a text, as Metal makes pipelines of no less, and what the GPU kept beside it.
std::string with_text(std::string_view text, std::string_view kept) {
  return std::to_string(text.size()) + ' ' + std::string(text) + std::string(kept);
}

int compiling_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

struct TextAndKept {
  std::string_view text, kept;
};
TextAndKept split(std::string_view code) {
  const size_t space = code.find(' '), size = std::stoul(std::string(code.substr(0, space)));
  return {code.substr(space + 1, size), code.substr(space + 1 + size)};
}

struct State {
  std::string name;
  std::unique_ptr<MetalGpu> gpu;
  Machine machine;
  int64_t most_parts = kMostParts;
  MetalBuffers buffers;
  MetalMemory symbols;
  std::vector<MetalPipeline> pipelines;
  MetalQueue queue;
  std::mutex beginning;  // of what the queue gets

  explicit State(std::unique_ptr<MetalGpu> opened) : gpu(std::move(opened)), buffers(*gpu), queue(*gpu, buffers) {}
  ~State() {
    (void)queue.settle();
    for (MetalPipeline pipeline : pipelines) gpu->release(pipeline);
    if (symbols.buffer) gpu->release(symbols.buffer);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Threadgroups that the GPU holds at once.
  int64_t resident(const LaunchShape& shape) const {
    int64_t each = std::min(machine.processor_blocks, machine.processor_threads / std::max(shape.threads, 1));
    if (shape.shared_bytes > 0) each = std::min(each, machine.processor_memory_bytes / shape.shared_bytes);
    return std::clamp<int64_t>(std::max<int64_t>(each, 1) * machine.processors, 1, most_parts);
  }

  Status check(const std::string& kernel, const LaunchShape& shape) const {
    const int64_t most = gpu->properties().threadgroup_bytes;
    if (shape.shared_bytes <= most) return {};
    return Error{"[metal] " + gpu->properties().title + ": kernel " + kernel + " needs " +
                 std::to_string(shape.shared_bytes) + " bytes of threadgroup memory, the GPU has " +
                 std::to_string(most)};
  }
};

class MetalDevice : public HostMemoryDevice {
 public:
  explicit MetalDevice(std::unique_ptr<MetalGpu> gpu) : state_(std::move(gpu)) {}

  static Result<std::unique_ptr<Device>> open(std::unique_ptr<MetalGpu> gpu, const MetalOptions& options) {
    auto device = std::make_unique<MetalDevice>(std::move(gpu));
    State& state = device->state_;
    const MetalProperties& p = state.gpu->properties();
    state.name = options.name;
    state.most_parts = options.most_parts;
    state.machine = machine_of(p);
    SMELT_CHECK(change(state.machine, options.changes));
    SMELT_TRY(symbols, state.gpu->allocate(kMostSymbols * sizeof(int64_t), "launch values"));
    state.symbols = symbols;
    SMELT_CHECK(state.queue.prepare());
    device->set_up({.triple = "metal",
                    .cpu = p.title,
                    .features = {},
                    .compiler = p.compiler,
                    .pipeline = {},
                    .version = kVersion,
                    .threads = compiling_threads(),
                    .cache_dir = options.cache_dir,
                    .use_cache = options.use_cache});
    return std::unique_ptr<Device>(std::move(device));
  }

  std::string name() const override { return state_.name; }
  std::string title() const override { return state_.gpu->properties().title; }
  const Machine& machine() const override { return state_.machine; }
  int workers() const override { return static_cast<int>(state_.machine.processors); }
  uint64_t available_memory() const override { return state_.gpu->available_memory(); }
  size_t code_bytes() const override { return state_.gpu->code_bytes(); }

  Result<void*> allocate(size_t bytes, std::string_view what) override { return state_.buffers.allocate(bytes, what); }
  void release(void* memory, size_t) override {
    (void)settle();
    state_.buffers.release(memory);
  }
  Status upload(void* to, std::span<const std::byte> from) override {
    std::lock_guard lock(state_.beginning);
    return state_.queue.write(static_cast<std::byte*>(to), from);
  }
  Status admit(std::span<const std::byte> memory) override { return state_.buffers.admit(memory); }
  void withdraw(std::span<const std::byte> memory) override {
    (void)settle();
    state_.buffers.withdraw(memory);
  }

  Result<std::string> make_entry(const Source& source, const KernelKey& key) const override {
    SMELT_CHECK(state_.check(source.entry, source.shape));
    const std::string label = label_of(key);
    SMELT_TRY(kept,
              state_.gpu->compile({.text = source.text, .entry = source.entry, .label = label, .shape = source.shape}));
    return pack({source.shape, with_text(source.text, kept)});
  }

  // Metal reads texts anew at each start, so that is done side by side.
  Status link(std::span<const Pending> batch) override {
    std::vector<LaunchShape> shapes(batch.size());
    std::vector<std::optional<Result<MetalPipeline>>> loaded(batch.size());
    for_each_in_parallel(batch.size(), compiling_threads(), [&](size_t i, int) {
      const PackedKernel packed = unpack(batch[i].entry);
      const auto [text, kept] = split(packed.code);
      const std::string label = label_of(batch[i].key);
      shapes[i] = packed.shape;
      loaded[i] = state_.gpu->load(
          {.text = text, .entry = batch[i].source->entry, .label = label, .shape = packed.shape}, kept);
    });
    Status done;
    for (size_t i = 0; i < batch.size(); ++i) {
      if (!*loaded[i]) {
        done = loaded[i]->error();
        continue;
      }
      const MetalPipeline pipeline = **loaded[i];
      state_.pipelines.push_back(pipeline);
      const auto blocks = static_cast<uint32_t>(blocks_for(shapes[i], state_.resident(shapes[i])));
      keep(batch[i], std::make_unique<MetalExecutable>(pipeline, shapes[i], batch[i].source->entry, blocks));
    }
    return done;
  }

  std::string assembly(const Source&) const override { return {}; }  // Metal shows none

  Result<const Executable*> memory_reader() override {
    const Source source = metal_memory_reader(workers());
    SMELT_TRY(kernels, compile({&source, 1}));
    return kernels[0];
  }

  Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) override {
    SMELT_TRY(plan, MetalPlan::capture(*state_.gpu, state_.buffers, state_.queue, state_.symbols, launches));
    return std::unique_ptr<CapturedPlan>(std::move(plan));
  }

  bool runs_ahead() const override { return true; }

  Result<uint64_t> start(const CapturedPlan& captured, std::span<const int64_t> symbols,
                         const RunOptions& options) override {
    ENSURE(symbols.size() <= kMostSymbols, "more launch values than there is room for");
    const auto& plan = static_cast<const MetalPlan&>(captured);
    State& state = state_;
    std::lock_guard lock(state.beginning);
    if (options.cancel && options.cancel->load(std::memory_order_relaxed)) return Error{"[run] interrupted"};
    SMELT_CHECK(state.queue.write(state.symbols.host, std::as_bytes(symbols),
                                  MetalBuffers::Place{state.symbols.buffer, 0, state.symbols.gpu}));
    if (options.times_ns.empty() && options.read_back.to.empty()) return plan.start();
    if (options.times_ns.empty()) {
      SMELT_TRY(begun, plan.start());
      SMELT_CHECK(state.queue.wait(begun));
    } else {
      SMELT_CHECK(state.queue.settle());
      SMELT_CHECK(plan.run_timed(options.times_ns));
    }
    const ReadBack& read = options.read_back;
    std::copy_n(static_cast<const std::byte*>(read.from), read.to.size(), read.to.begin());
    return uint64_t{0};
  }

  Status wait(uint64_t run) override { return state_.queue.wait(run); }

 private:
  Status settle() override {
    std::lock_guard lock(state_.beginning);
    return state_.queue.settle();
  }

  State state_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_metal_device(std::unique_ptr<MetalGpu> gpu, const MetalOptions& options) {
  return MetalDevice::open(std::move(gpu), options);
}

// The one of machines.def whose title begins so, up to a comma.
Machine machine_of(const MetalProperties& p) {
  Machine m = *known_machine(kNewest);
  for (const Machine& known : known_machines())
    if (known.isa == Isa::Apple && chip_of(known.title) == chip_of(p.title)) m = known;
  m.title = p.title;
  if (p.cores > 0) {  // of most GPUs there are several, with more cores and fewer
    m.processors = p.cores;
    m.tasks = 4 * p.cores;
    m.processor_bandwidth = m.bandwidth / p.cores;
  }
  m.memory_bytes = static_cast<int64_t>(p.memory_bytes);
  m.block_memory_bytes = std::min(m.block_memory_bytes, p.threadgroup_bytes);
  return m;
}

}  // namespace smelt
