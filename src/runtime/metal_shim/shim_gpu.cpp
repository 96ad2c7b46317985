#include "runtime/metal_shim/shim_gpu.h"

#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/ensure.h"
#include "runtime/available_memory.h"
#include "runtime/llvm/jit.h"
#include "runtime/memory.h"
#include "runtime/metal_shim/compile.h"
#include "runtime/metal_shim/threadgroup.h"
#include "runtime/target.h"

namespace smelt {
namespace {

constexpr int64_t kThreadgroupBytes = 32 << 10;
constexpr size_t kMostDispatches = 1 << 14;

// A buffer, which is memory of its own, or lies in other memory.
struct ShimBuffer {
  Buffer own;
  MemoryRegion region;
};

struct ShimCommands {
  std::vector<MetalDispatch> dispatches;
  std::vector<MetalBuffer> resident;
};

template <class Handle, class T>
Handle handle_of(T* object) {
  return reinterpret_cast<Handle>(object);
}
const ShimBuffer& of(MetalBuffer buffer) { return *reinterpret_cast<const ShimBuffer*>(buffer); }
const ShimKernel& of(MetalPipeline pipeline) { return *reinterpret_cast<const ShimKernel*>(pipeline); }
const ShimCommands& of(MetalCommands commands) { return *reinterpret_cast<const ShimCommands*>(commands); }

uint64_t nanoseconds(Clock::time_point start) { return static_cast<uint64_t>(seconds_since(start) * 1e9); }

template <class T>
std::vector<T> read_items(MetalBuffer buffer, size_t offset, size_t count) {
  const MemoryRegion& from = of(buffer).region;
  ENSURE(offset + count * sizeof(T) <= from.bytes, "a dispatch with arguments behind the end of their buffer");
  std::vector<T> items(count);
  if (count > 0) std::memcpy(items.data(), from.begin + offset, count * sizeof(T));
  return items;
}

class ShimGpu : public MetalGpu {
 public:
  ShimGpu(ShimCompiler compiler, std::unique_ptr<Jit> jit) : compiler_(std::move(compiler)), jit_(std::move(jit)) {
    properties_.title = "Apple M3 Max, played by the processor";
    properties_.compiler = compiler_.version + " for " + host_target().cpu + " " + host_target().features;
    properties_.memory_bytes = smelt::available_memory();
    properties_.buffer_bytes = size_t{1} << 40;
    properties_.page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    properties_.threadgroup_bytes = kThreadgroupBytes;
  }

  const MetalProperties& properties() const override { return properties_; }
  uint64_t available_memory() const override { return smelt::available_memory(); }

  Result<MetalMemory> allocate(size_t bytes, std::string_view what) override {
    Result<Buffer> memory = Buffer::allocate(bytes);
    if (!memory) return Error{memory.error().message + " (for " + std::string(what) + ")"};
    auto buffer = std::make_unique<ShimBuffer>(ShimBuffer{memory.take(), {}});
    buffer->region = {std::string(what), buffer->own.data(), bytes};
    return give(std::move(buffer));
  }

  Result<MetalMemory> adopt(std::span<const std::byte> pages) override {
    const size_t page = properties_.page_bytes;
    ENSURE(reinterpret_cast<uintptr_t>(pages.data()) % page == 0 && pages.size() % page == 0, "no whole pages");
    return give(std::make_unique<ShimBuffer>(ShimBuffer{{}, {"the mapped file", pages.data(), pages.size()}}));
  }

  void release(MetalBuffer buffer) override {
    std::lock_guard lock(mutex_);
    ENSURE(buffers_.erase(buffer) == 1, "a buffer that this GPU does not have");
  }

  Result<std::string> compile(const MetalText& text) const override {
    const Source source{.text = std::string(text.text), .entry = std::string(text.entry), .shape = text.shape};
    return compile_msl(compiler_, {&source, 1}, std::string(text.label));
  }

  Result<MetalPipeline> load(const MetalText& text, std::string_view kept) override {
    const std::string label(text.label), code(kept);  // aligned, as the linker wants it
    const Object object{code, label};
    const KernelEntry linked = jit_->link({&object, 1})[0];
    const std::string name(text.entry);
    if (!linked)
      return Error{
          "[metal-shim] kernel " + name +
          ": it cannot be linked; a processor with half floats (x86-64-v3 or AArch64) and clang 19 are wanted"};
    return handle_of<MetalPipeline>(new ShimKernel{shim_entry(linked), 0, text.shape, name});
  }

  void release(MetalPipeline pipeline) override { delete &of(pipeline); }
  size_t code_bytes() const override { return jit_->code_bytes() + jit_->data_bytes(); }

  size_t most_dispatches() const override { return kMostDispatches; }

  Result<MetalCommands> encode(std::span<const MetalDispatch> dispatches,
                               std::span<const MetalBuffer> resident) override {
    for (size_t i = 1; i < dispatches.size(); ++i)
      ENSURE(dispatches[i].waits, "a dispatch that may run beside the one before it");
    return handle_of<MetalCommands>(
        new ShimCommands{{dispatches.begin(), dispatches.end()}, {resident.begin(), resident.end()}});
  }

  void release(MetalCommands commands) override { delete &of(commands); }

  // As late as it may be: nothing runs before somebody waits for it. Who reads too early, or writes what a run that was
  // begun has still to read, gets other results than a GPU would give on a lucky day.
  Result<uint64_t> start(MetalCommands commands, std::span<const MetalCopy> copies) override {
    std::lock_guard lock(mutex_);
    begun_.push_back({++events_, &of(commands), {copies.begin(), copies.end()}});
    return events_;
  }

  Status wait(uint64_t event) override {
    Status first;
    while (const auto next = take_begun(event)) {
      for (const MetalCopy& copy : next->copies) run(copy);
      const Status done = run(*next->commands, [] {});
      if (first) first = done;
    }
    return first;
  }

  Result<MetalTimes> run_timed(MetalCommands commands) override {
    const auto start = Clock::now();
    MetalTimes times;
    uint64_t last = 0;
    SMELT_CHECK(run(of(commands), [&] {
      const uint64_t now = nanoseconds(start);
      times.dispatches.push_back({last, now});
      last = now;
    }));
    times.after = {last, last};
    return times;
  }

 private:
  struct Begun {
    uint64_t event = 0;
    const ShimCommands* commands;
    std::vector<MetalCopy> copies;
  };

  // The first that was begun, up to an event; nothing behind the last one.
  std::optional<Begun> take_begun(uint64_t event) {
    std::lock_guard lock(mutex_);
    ENSURE(event <= events_, "an event that is not to come");
    if (begun_.empty() || begun_.front().event > event) return std::nullopt;
    const Begun next = std::move(begun_.front());
    begun_.pop_front();
    return next;
  }

  static void run(const MetalCopy& copy) {
    const MemoryRegion &from = of(copy.from).region, &to = of(copy.to).region;
    ENSURE(copy.from_offset + copy.bytes <= from.bytes && copy.to_offset + copy.bytes <= to.bytes &&
               copy.from_offset % kMetalUnit == 0 && copy.to_offset % kMetalUnit == 0 && copy.bytes % kMetalUnit == 0,
           "a copy between buffers that is not within both, or not of whole units");
    std::memcpy(const_cast<std::byte*>(to.begin) + copy.to_offset, from.begin + copy.from_offset, copy.bytes);
  }

  Result<MetalMemory> give(std::unique_ptr<ShimBuffer> buffer) {
    const auto handle = handle_of<MetalBuffer>(buffer.get());
    auto* host = const_cast<std::byte*>(buffer->region.begin);
    std::lock_guard lock(mutex_);
    buffers_[handle] = std::move(buffer);
    return MetalMemory{handle, host, reinterpret_cast<uint64_t>(host)};
  }

  template <class Behind>
  Status run(const ShimCommands& commands, const Behind& behind_each) {
    std::vector<MemoryRegion> regions;
    for (MetalBuffer buffer : commands.resident) regions.push_back(of(buffer).region);
    for (const MetalDispatch& d : commands.dispatches) {
      SMELT_CHECK(run(d, regions));
      behind_each();
    }
    return {};
  }

  Status run(const MetalDispatch& d, const std::vector<MemoryRegion>& regions) {
    const ShimKernel& kernel = of(d.pipeline);
    const auto buffers = read_items<void*>(d.addresses, d.addresses_offset, static_cast<size_t>(kernel.shape.buffers));
    const auto symbols = read_items<int64_t>(d.symbols, 0, of(d.symbols).region.bytes / sizeof(int64_t));
    return run_checked({.kernel = &kernel, .buffers = buffers, .symbols = symbols, .parts = d.threadgroups}, regions,
                       checks_);
  }

  MetalProperties properties_;
  const ShimCompiler compiler_;
  const std::unique_ptr<Jit> jit_;
  MemoryChecks checks_;
  std::mutex mutex_;  // of what follows
  std::map<MetalBuffer, std::unique_ptr<ShimBuffer>> buffers_;
  std::deque<Begun> begun_;
  uint64_t events_ = 0;
};

}  // namespace

Result<std::unique_ptr<MetalGpu>> open_shim_gpu() {
  SMELT_TRY(compiler, find_shim_compiler());
  SMELT_TRY(jit, Jit::create(shim_calls()));
  return std::unique_ptr<MetalGpu>(std::make_unique<ShimGpu>(std::move(compiler), std::move(jit)));
}

}  // namespace smelt
