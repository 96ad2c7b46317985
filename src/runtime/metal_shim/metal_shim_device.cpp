#include "runtime/metal_shim/metal_shim_device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/ensure.h"
#include "base/machine_changes.h"
#include "runtime/available_memory.h"
#include "runtime/llvm/jit.h"
#include "runtime/memory.h"
#include "runtime/metal_shim/compile.h"
#include "runtime/metal_shim/threadgroup.h"
#include "runtime/packed_kernel.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// Part of every cache key: raise it when compile_msl() makes something else of the same input.
constexpr const char* kVersion = "smelt-metal-shim-1";

constexpr const char* kMachine = "m3-max";
constexpr int64_t kPlayedParts = 3;  // of a launch, where it has the choice: some, so that sharing out is looked at

struct ShimExecutable : Executable {
  explicit ShimExecutable(ShimKernel kernel) : kernel(std::move(kernel)) {}
  ShimKernel kernel;
};

std::string symbol_of(const KernelKey& key) { return "metal." + key.hex(); }

struct ShimPlan : CapturedPlan {
  std::vector<Launch> launches;
};

}  // namespace

struct MetalShimDevice::State {
  ShimCompiler compiler;
  Machine machine;
  std::unique_ptr<Jit> jit;

  std::mutex running;  // of memory, too
  std::map<void*, Buffer> memory;
  std::map<void*, std::string> uses;
  MemoryChecks checks;

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
  device->set_up({.triple = host_target().triple,
                  .cpu = host_target().cpu,
                  .features = host_target().features,
                  .compiler = state.compiler.version,
                  .pipeline = {},
                  .version = kVersion,
                  .threads = thread_count(0),
                  .cache_dir = options.cache_dir,
                  .use_cache = options.use_cache});
  return device;
}

std::string MetalShimDevice::title() const { return state_->machine.title + ", played by the processor"; }
const Machine& MetalShimDevice::machine() const { return state_->machine; }
uint64_t MetalShimDevice::available_memory() const { return smelt::available_memory(); }

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

Result<std::string> MetalShimDevice::make_entry(const Source& source, const KernelKey& key) const {
  SMELT_TRY(object, compile_msl(state_->compiler, {&source, 1}, symbol_of(key)));
  return pack({source.shape, object});
}

Status MetalShimDevice::link(std::span<const Pending> batch) {
  for (const Pending& kernel : batch) {
    const PackedKernel packed = unpack(kernel.entry);
    const std::string symbol = symbol_of(kernel.key);
    const Object object{packed.code, symbol};
    const KernelEntry linked = state_->jit->link({&object, 1})[0];
    if (!linked)
      return Error{
          "[metal-shim] kernel " + kernel.source->entry +
          ": it cannot be linked; a processor with half floats (x86-64-v3 or AArch64) and clang 19 are wanted"};
    keep(kernel,
         std::make_unique<ShimExecutable>(ShimKernel{shim_entry(linked), 0, packed.shape, kernel.source->entry}));
  }
  return {};
}

size_t MetalShimDevice::code_bytes() const { return state_->jit->code_bytes() + state_->jit->data_bytes(); }

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
