#include "runtime/cpu/cpu_device.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/ensure.h"
#include "base/machine_changes.h"
#include "base/stack.h"
#include "runtime/available_memory.h"
#include "runtime/cpu/read_bandwidth.h"
#include "runtime/cpu/worker_choice.h"
#include "runtime/cpu/workers.h"
#include "runtime/host_memory_device.h"
#include "runtime/llvm/jit.h"
#include "runtime/machines.h"
#include "runtime/memory.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// Part of every cache key: raise it when compile_object() makes something else of the same input.
constexpr const char* kVersion = "smelt-kernels-2";

// Different text, different symbol: any number of kernels with one entry name can be linked into
// one process.
std::string symbol_of(const Source& source, const KernelKey& key) { return source.entry + "." + key.hex(); }

// What a kernel takes of a stack, with the frames of who calls it.
constexpr size_t kStackOfKernel = 2 * kMostStackOfFunction;

struct CpuPlan : CapturedPlan {
  explicit CpuPlan(int most) : choices(most), chosen(most) {}
  int workers() const override { return chosen; }

  std::vector<CpuLaunch> launches;
  mutable WorkerChoices choices;    // of the runs so far
  mutable std::atomic<int> chosen;  // for runs as the last one
};

struct State {
  CodegenOptions codegen;
  CpuTarget target;
  Machine machine;
  std::unique_ptr<Jit> jit;
  std::unique_ptr<Workers> workers;
  bool chooses_workers = false;

  std::mutex running;
  std::mutex allocating;  // of what follows
  std::map<void*, Buffer> memory;
  const CpuExecutable reader{memory_reading_kernel()};
};

class CpuDevice : public HostMemoryDevice {
 public:
  static Result<std::unique_ptr<Device>> open(const CpuOptions& options) {
    auto device = std::make_unique<CpuDevice>();
    State& state = device->state_;
    state.codegen = options.codegen;
    state.target = options.target.value_or(host_target());
    state.machine = options.target ? machine_of(state.target) : host_machine();
    SMELT_CHECK(change(state.machine, options.changes));
    SMELT_TRY(jit, Jit::create());
    state.jit = std::move(jit);
    const int threads = options.threads > 0 ? options.threads : state.target.cores;
    state.chooses_workers = options.threads == 0;
    state.workers = std::make_unique<Workers>(threads, state.machine.block_memory_bytes);
    if (state.workers->count() < threads)
      return Error{"[device] cpu: the system gives " + std::to_string(state.workers->count()) + " of " +
                   std::to_string(threads) + " threads; use fewer (-t), or raise its limits (ulimit -u, ulimit -v)"};

    device->set_up({.triple = state.target.triple,
                    .cpu = state.target.cpu,
                    .features = state.target.features,
                    .compiler = "llvm " + llvm_version(),
                    .pipeline = options.codegen.passes + " O" + std::to_string(options.codegen.level),
                    .version = kVersion,
                    .keyed_by_shape = false,
                    .threads = threads,
                    .cache_dir = options.cache_dir,
                    .use_cache = options.use_cache});
    return std::unique_ptr<Device>(std::move(device));
  }

  std::string name() const override { return "cpu"; }
  const Machine& machine() const override { return state_.machine; }
  std::string title() const override { return state_.target.cpu; }
  int workers() const override { return state_.workers->count(); }
  int timed_workers() const override { return workers(); }
  std::string shortcoming() const override { return missing_instructions(state_.target); }
  Result<const Executable*> memory_reader() override { return &state_.reader; }
  uint64_t available_memory() const override { return smelt::available_memory(); }

  Result<void*> allocate(size_t bytes, std::string_view what) override {
    Result<Buffer> buffer = Buffer::allocate(std::max<size_t>(bytes, 1));
    if (!buffer) return Error{buffer.error().message + " (for " + std::string(what) + ")"};
    void* data = buffer->data();
    std::lock_guard lock(state_.allocating);
    state_.memory[data] = buffer.take();
    return data;
  }

  void release(void* memory, size_t) override {
    std::lock_guard lock(state_.allocating);
    ENSURE(state_.memory.erase(memory) == 1, "memory that this device has not handed out");
  }

  Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) override {
    auto plan = std::make_unique<CpuPlan>(workers());
    for (const Launch& l : launches)
      plan->launches.push_back({cpu_entry_of(l.kernel), l.buffers, l.shares, l.parts, l.half_is_fixed});
    return std::unique_ptr<CapturedPlan>(std::move(plan));
  }

  // The calling thread is one of the workers, so a run is done when this returns.
  Result<uint64_t> start(const CapturedPlan& plan, std::span<const int64_t> symbols,
                         const RunOptions& options) override {
    SMELT_CHECK(check_stack());
    std::lock_guard lock(state_.running);
    if (!run(static_cast<const CpuPlan&>(plan), symbols, options)) return Error{"[run] interrupted"};
    const ReadBack& read = options.read_back;
    std::copy_n(static_cast<const std::byte*>(read.from), read.to.size(), read.to.begin());
    return uint64_t{0};
  }

  Result<std::string> make_entry(const Source& source, const KernelKey& key) const override {
    return compile_object(source, symbol_of(source, key), state_.target, state_.codegen);
  }

  Status link(std::span<const Pending> batch) override {
    std::vector<std::string> symbols;
    std::vector<Object> objects;
    for (const Pending& kernel : batch) symbols.push_back(symbol_of(*kernel.source, kernel.key));
    for (size_t i = 0; i < batch.size(); ++i) objects.push_back({batch[i].entry, symbols[i]});
    const std::vector<KernelEntry> entries = state_.jit->link(objects);
    for (size_t i = 0; i < batch.size(); ++i) {
      if (!entries[i])
        return Error{"[jit] kernel " + symbols[i] + ": cannot be linked; free memory, or raise its limit (ulimit -v)"};
      keep(batch[i], std::make_unique<CpuExecutable>(entries[i]));
    }
    return {};
  }

  size_t code_bytes() const override { return state_.jit->code_bytes() + state_.jit->data_bytes(); }

  Assembly linked_assembly(const Source& source) const override {
    return smelt::linked_assembly(source, state_.target, state_.codegen);
  }

  std::string assembly(const Source& source) const override {
    return smelt::assembly(source, state_.target, state_.codegen);
  }

 private:
  bool run(const CpuPlan& plan, std::span<const int64_t> symbols, const RunOptions& options) {
    const bool chooses = state_.chooses_workers && workers() > 1 && options.times_ns.empty();
    if (!chooses) return state_.workers->run(plan.launches, symbols.data(), options);
    const auto begin = Clock::now();
    if (!state_.workers->run(plan.launches, symbols.data(), options, plan.choices.workers(symbols))) return false;
    plan.choices.took(std::chrono::nanoseconds(Clock::now() - begin).count(), symbols);
    plan.chosen = plan.choices.workers(symbols);
    return true;
  }

  // Of the calling thread, which is a worker for as long as a run takes; the others have stacks of ours.
  Status check_stack() const {
    if (const size_t left = stack_left(); left < kStackOfKernel)
      return Error{"[run] the stack of the calling thread has " + std::to_string(left >> 10) +
                   " KB left, and kernels want " + std::to_string(kStackOfKernel >> 10) +
                   "; raise its limit (ulimit -s)"};
    return {};
  }

  State state_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_cpu_device(const CpuOptions& options) { return CpuDevice::open(options); }

KernelEntry cpu_entry_of(const Executable* kernel) {
  return kernel ? static_cast<const CpuExecutable*>(kernel)->entry : nullptr;
}

}  // namespace smelt
