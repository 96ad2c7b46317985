// CpuDevice: the processor as a device. Compiles kernels (through the cache), owns the worker threads; its memory is
// that of the process.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/compiling_device.h"
#include "runtime/cpu/kernel_entry.h"
#include "runtime/cpu/workers.h"
#include "runtime/llvm/compile.h"

namespace smelt {

struct CpuOptions {
  int threads = 0;        // 0: one for each core that this process may use
  std::string cache_dir;  // of compiled kernels; empty: cache_folder() of base/dirs.h
  bool use_cache = true;
  CodegenOptions codegen;
  std::optional<CpuTarget> target;  // to compile for; this machine must run it. None: host_target()
  std::string changes = {};         // of its machine, see base/machine_changes.h
};

struct CpuExecutable : Executable {
  explicit CpuExecutable(KernelEntry entry) : entry(entry) {}
  KernelEntry entry;
};

class CpuDevice : public CompilingDevice {
 public:
  static Result<std::unique_ptr<CpuDevice>> open(const CpuOptions& options);
  ~CpuDevice() override;

  // What a kernel of any CpuDevice is: the code itself.
  static KernelEntry entry_of(const Executable* kernel);

  std::string name() const override { return "cpu"; }
  std::string title() const override;
  const Machine& machine() const override;
  int workers() const override;
  int timed_workers() const override { return workers(); }
  std::string shortcoming() const override;

  Result<void*> allocate(size_t bytes, std::string_view what) override;
  void release(void* memory, size_t bytes) override;
  bool host_sees_memory() const override { return true; }
  uint64_t available_memory() const override;
  Status upload(void* to, std::span<const std::byte> from) override;
  Status clear(void* to, size_t bytes) override;
  Status read_back(std::span<std::byte> to, const void* from) override;

  std::string assembly(const Source& source) const override;
  Assembly linked_assembly(const Source& source) const override;
  Result<const Executable*> memory_reader() override;

  // Kernels of any CpuDevice of the process may be in it: code is code.
  Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) override;
  Status run(const CapturedPlan& plan, std::span<const int64_t> symbols, const RunOptions& options = {}) override;

 private:
  CpuDevice();
  Result<std::string> make_entry(const Source& source, const KernelKey& key) const override;
  Status link(std::span<const Pending> batch) override;
  size_t code_bytes() const override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
