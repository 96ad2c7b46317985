#include "runtime/cpu/cpu_device.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/ensure.h"
#include "base/machine_changes.h"
#include "runtime/available_memory.h"
#include "runtime/cpu/read_bandwidth.h"
#include "runtime/llvm/jit.h"
#include "runtime/machines.h"
#include "runtime/memory.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// Part of every cache key: raise it when compile_object() makes something else of the same input.
constexpr const char* kVersion = "smelt-kernels-1";

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
  std::unique_ptr<Jit> jit;
  std::unique_ptr<Workers> workers;

  std::mutex running;
  std::mutex allocating;  // of what follows
  std::map<void*, Buffer> memory;
  const CpuExecutable reader{memory_reading_kernel()};
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
  SMELT_TRY(jit, Jit::create());
  state.jit = std::move(jit);
  const int threads = options.threads > 0 ? options.threads : state.target.cores;
  state.workers = std::make_unique<Workers>(threads);
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
  return device;
}

KernelEntry CpuDevice::entry_of(const Executable* kernel) {
  return kernel ? static_cast<const CpuExecutable*>(kernel)->entry : nullptr;
}

const Machine& CpuDevice::machine() const { return state_->machine; }
std::string CpuDevice::title() const { return state_->target.cpu; }
int CpuDevice::workers() const { return state_->workers->count(); }
std::string CpuDevice::shortcoming() const { return missing_instructions(state_->target); }
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

Status CpuDevice::clear(void* to, size_t bytes) {
  std::fill_n(static_cast<std::byte*>(to), bytes, std::byte{0});
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

Result<std::string> CpuDevice::make_entry(const Source& source, const KernelKey& key) const {
  return compile_object(source, symbol_of(source, key), state_->target, state_->codegen);
}

Status CpuDevice::link(std::span<const Pending> batch) {
  std::vector<std::string> symbols;
  std::vector<Object> objects;
  for (const Pending& kernel : batch) symbols.push_back(symbol_of(*kernel.source, kernel.key));
  for (size_t i = 0; i < batch.size(); ++i) objects.push_back({batch[i].entry, symbols[i]});
  const std::vector<KernelEntry> entries = state_->jit->link(objects);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!entries[i])
      return Error{"[jit] kernel " + symbols[i] + ": cannot be linked; free memory, or raise its limit (ulimit -v)"};
    keep(batch[i], std::make_unique<CpuExecutable>(entries[i]));
  }
  return {};
}

size_t CpuDevice::code_bytes() const { return state_->jit->code_bytes() + state_->jit->data_bytes(); }

Assembly CpuDevice::linked_assembly(const Source& source) const {
  return smelt::linked_assembly(source, state_->target, state_->codegen);
}

std::string CpuDevice::assembly(const Source& source) const {
  return smelt::assembly(source, state_->target, state_->codegen);
}

}  // namespace smelt
