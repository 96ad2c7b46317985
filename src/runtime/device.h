// Device: what kernels run on, as the rest of the program sees it. The engine compiles kernels for it, allocates memory
// that they can read, captures plans once and runs them for every token; what lies behind is the device's own affair
// (runtime/cpu/, runtime/cuda/). devices.h opens one.
//
//   kernels = device->compile(sources);                     machine code, from the cache on disk where it is there
//   memory  = DeviceMemory::allocate(*device, bytes, ..)    zeroed
//   plan    = device->capture(launches);                    once
//   device->run(*plan, symbols)                             for every token or chunk
//
// A device may have a queue: start() returns before a run is done, and wait() when it is, so that the host prepares the
// next one in the meantime. What the host does through upload(), clear() and read_back() is ordered with the runs as
// the calls are; where it reads memory of the device itself, it waits first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "base/result.h"
#include "runtime/source.h"

namespace smelt {

// A compiled kernel. What it is made of only its device knows; it lives as long as that.
class Executable {
 public:
  virtual ~Executable() = default;
};

// A kernel and its arguments: addresses in the memory of the device, in the order of the kernel's slots.
struct Launch {
  const Executable* kernel = nullptr;
  const void* const* buffers = nullptr;  // lives as long as the plan
  // Parts for each worker. With one, worker i has part i. With more, workers take the next part as they become free:
  // for kernels whose parts differ in work, or last long enough for one core to fall behind.
  int shares = 1;
  int parts = 0;  // in all; 0: as many as the device likes best
  // Each worker has the first half of its own parts as one, and then they take what is left as above: for kernels that
  // make something for all parts of a worker first, and read on where its last part has ended. REQUIRES: shares are
  // even, and `parts` is 0.
  bool half_is_fixed = false;
};

// Launches in their order, each behind a barrier, in the form that the device replays.
class CapturedPlan {
 public:
  virtual ~CapturedPlan() = default;
  virtual int workers() const { return 0; }  // that run it now, where a device chooses; 0: all it has
};

// What a run has left in memory of the device, for the host.
struct ReadBack {
  static constexpr size_t kMostBytes = 4096;
  std::span<std::byte> to = {};
  const void* from = nullptr;
};

struct RunOptions {
  // When it becomes true the run ends early, after a launch.
  const std::atomic<bool>* cancel = nullptr;
  // Empty, or one more than launches: a clock in nanoseconds at the start and behind each launch, so that
  // times_ns[i + 1] - times_ns[i] is what launch i cost. Reading it slows the run down a little.
  std::span<int64_t> times_ns = {};
  // Empty, or timed_workers() times launches, worker by worker: the same clock where a worker has done its part of a
  // launch and begins to wait for the others. Only together with times_ns.
  std::span<int64_t> arrivals_ns = {};
  // Read as soon as the run is done, whatever is begun behind it: there once wait() for this run has returned, or for
  // a later one. REQUIRES: the memory stays until then.
  ReadBack read_back = {};
};

struct CompileStats {
  int compiled = 0;         // by the compiler below us
  int cached = 0;           // read from the cache
  int shared = 0;           // equal to a kernel that was there already
  double seconds = 0;       // wall clock, all of compile()
  double link_seconds = 0;  // of these: linking
  size_t code_bytes = 0;    // machine code and constants in memory
};

class Device {
 public:
  virtual ~Device() = default;

  // --- what it is

  virtual std::string name() const = 0;   // as the user gives it: "cpu", "cuda:0"
  virtual std::string title() const = 0;  // as its maker calls it
  virtual const Machine& machine() const = 0;
  virtual int workers() const = 0;                 // threads or multiprocessors that share the parts of a launch
  virtual int timed_workers() const { return 0; }  // those that RunOptions::arrivals_ns tells of
  // What kernels would be faster with and this machine lacks, as a sentence for the user; else empty.
  virtual std::string shortcoming() const { return {}; }

  // --- memory

  // Zeroed. An Error names what the memory is for, and how much of it there is.
  virtual Result<void*> allocate(size_t bytes, std::string_view what) = 0;
  virtual void release(void* memory, size_t bytes) = 0;
  virtual bool host_sees_memory() const = 0;  // then addresses are those of this process
  virtual uint64_t available_memory() const = 0;
  virtual Status upload(void* to, std::span<const std::byte> from) = 0;
  // Zeros, before anything that is asked for later. A GPU need not have written them yet.
  virtual Status clear(void* to, size_t bytes) = 0;
  virtual Status read_back(std::span<std::byte> to, const void* from) = 0;
  // Memory of the process that kernels read where it lies, such as a mapped file: before a plan that does is captured.
  // REQUIRES: host_sees_memory(); it does not change, and stays until withdraw(), which each admit() wants.
  // Thread-safe.
  virtual Status admit(std::span<const std::byte>) { return {}; }
  virtual void withdraw(std::span<const std::byte>) {}

  // --- kernels

  // In the order of `sources`. Equal sources give equal kernels, also across calls. Thread-safe. When `cancel` becomes
  // true no further kernel is begun, and nothing is returned. A source with a key in place of its text gives null where
  // the cache does not hold it.
  virtual Result<std::vector<const Executable*>> compile(std::span<const Source> sources,
                                                         const ProgressFn& progress = {},
                                                         const std::atomic<bool>* cancel = nullptr) = 0;
  // Names a source for later compilations, see Source::key.
  virtual std::string key_of(const Source& source) const = 0;
  // Short texts beside the kernels in the cache, each under a question: of this kind of device and this compiler.
  virtual std::optional<std::string> recall(std::string_view question) const = 0;
  virtual void remember(std::string_view question, std::string_view answer) const = 0;
  // For people: what compile() would make of it.
  virtual std::string assembly(const Source& source) const = 0;
  // The same, with the lines that it came from; takes longer.
  virtual Assembly linked_assembly(const Source& source) const { return {assembly(source), {}}; }
  // Why kernels are not cached although they should be, as a sentence for the user; else empty.
  virtual std::string cache_problem() const = 0;
  virtual CompileStats stats() const = 0;  // since it was opened

  // For those who time: reads a stretch of memory, as fast as it can. Buffers: its begin and its end.
  virtual Result<const Executable*> memory_reader() = 0;

  // --- plans

  // REQUIRES: what the launches point to outlives the plan, and the device does.
  virtual Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) = 0;
  // Whether start() returns before a run is done. If not, wait() has nothing to wait for.
  virtual bool runs_ahead() const { return false; }
  // How many runs may be under way: where there are as many, start() waits for the first of them.
  virtual int64_t runs_under_way() const { return 1; }
  // Begins a run behind all that were begun before, and says which one it is, for wait(). Thread-safe. With
  // RunOptions::times_ns it returns when the run is done. An Error if it was cancelled before that, or if the device
  // failed. `symbols`: launch values, handed to every kernel; they are copied.
  virtual Result<uint64_t> start(const CapturedPlan& plan, std::span<const int64_t> symbols,
                                 const RunOptions& options = {}) = 0;
  // Until this run and all before it are done. An Error if the device failed in one of those that nobody knew to be
  // done before: what they were to write is undefined then. Thread-safe.
  virtual Status wait(uint64_t) { return {}; }
  // Both.
  Status run(const CapturedPlan& plan, std::span<const int64_t> symbols, const RunOptions& options = {}) {
    SMELT_TRY(started, start(plan, symbols, options));
    return wait(started);
  }
};

// Memory of a device, for as long as this lives.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  static Result<DeviceMemory> allocate(Device& device, size_t bytes, std::string_view what) {
    SMELT_TRY(data, device.allocate(bytes, what));
    return DeviceMemory(device, data, bytes);
  }
  ~DeviceMemory() {
    if (data_) device_->release(data_, size_);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }

 private:
  DeviceMemory(Device& device, void* data, size_t size) : device_(&device), data_(data), size_(size) {}
  void swap(DeviceMemory& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Memory of the process that kernels of a device may read, for as long as this lives.
class AdmittedMemory {
 public:
  static Result<AdmittedMemory> admit(Device& device, std::span<const std::byte> bytes) {
    SMELT_CHECK(device.admit(bytes));
    return AdmittedMemory(device, bytes);
  }
  ~AdmittedMemory() {
    if (device_) device_->withdraw(bytes_);
  }
  AdmittedMemory(AdmittedMemory&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), bytes_(other.bytes_) {}
  AdmittedMemory& operator=(AdmittedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

 private:
  AdmittedMemory(Device& device, std::span<const std::byte> bytes) : device_(&device), bytes_(bytes) {}
  Device* device_;
  std::span<const std::byte> bytes_;
};

}  // namespace smelt
