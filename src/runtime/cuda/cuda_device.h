// CudaDevice: an NVIDIA GPU. Kernels are LLVM IR, made into PTX by LLVM (runtime/llvm/ptx.h) and into machine code by
// the driver (assemble.h), both kept on disk; plans are device graphs (plan.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/compiling_device.h"
#include "runtime/cuda/context.h"

namespace smelt {

struct CudaOptions {
  int ordinal = 0;
  std::string cache_dir;  // of compiled kernels; empty: cache_folder() of base/dirs.h
  bool use_cache = true;
  std::string changes = {};  // of its machine, see base/machine_changes.h
};

class CudaDevice : public CompilingDevice {
 public:
  // REQUIRES: the driver outlives the device.
  static Result<std::unique_ptr<CudaDevice>> open(const CudaDriver& driver, const CudaOptions& options);
  ~CudaDevice() override;

  std::string name() const override;
  std::string title() const override;
  const Machine& machine() const override;
  int workers() const override;

  Result<void*> allocate(size_t bytes, std::string_view what) override;
  void release(void* memory, size_t bytes) override;
  bool host_sees_memory() const override { return false; }
  uint64_t available_memory() const override;
  Status upload(void* to, std::span<const std::byte> from) override;
  Status clear(void* to, size_t bytes) override;
  Status read_back(std::span<std::byte> to, const void* from) override;

  std::string assembly(const Source& source) const override;  // PTX
  Assembly linked_assembly(const Source& source) const override;
  Result<const Executable*> memory_reader() override;

  Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) override;
  Status run(const CapturedPlan& plan, std::span<const int64_t> symbols, const RunOptions& options = {}) override;

 private:
  CudaDevice();
  Result<std::string> make_entry(const Source& source, const KernelKey& key) const override;
  Status link(std::span<const Pending> batch) override;
  size_t code_bytes() const override;

  struct State;
  std::unique_ptr<State> state_;
};

// What the compiler is told of such a GPU.
Machine machine_of(const CudaProperties& properties);

}  // namespace smelt
