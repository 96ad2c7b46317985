// MetalDevice: a GPU of Apple, or what plays one (gpu.h). Kernels are text in the Metal Shading Language, kept on disk
// with what Metal made of it; memory is shared with the host; a plan is encoded once (plan.h).
#pragma once

#include <memory>
#include <string>

#include "runtime/compiling_device.h"
#include "runtime/metal/gpu.h"

namespace smelt {

struct MetalOptions {
  std::string name = "metal";  // of the device
  std::string cache_dir;       // of compiled kernels; empty: cache_folder() of base/dirs.h
  bool use_cache = true;
  std::string changes = {};         // of its machine, see base/machine_changes.h
  int64_t most_parts = kMostParts;  // of a launch, where it has the choice
};

class MetalDevice : public CompilingDevice {
 public:
  static Result<std::unique_ptr<MetalDevice>> open(std::unique_ptr<MetalGpu> gpu, const MetalOptions& options);
  ~MetalDevice() override;

  std::string name() const override;
  std::string title() const override;
  const Machine& machine() const override;
  int workers() const override;

  Result<void*> allocate(size_t bytes, std::string_view what) override;
  void release(void* memory, size_t bytes) override;
  bool host_sees_memory() const override { return true; }
  Status admit(std::span<const std::byte> memory) override;
  void withdraw(std::span<const std::byte> memory) override;
  uint64_t available_memory() const override;
  Status upload(void* to, std::span<const std::byte> from) override;
  Status clear(void* to, size_t bytes) override;
  Status read_back(std::span<std::byte> to, const void* from) override;

  std::string assembly(const Source&) const override { return {}; }  // Metal shows none
  Result<const Executable*> memory_reader() override;

  Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) override;
  Status run(const CapturedPlan& plan, std::span<const int64_t> symbols, const RunOptions& options = {}) override;

 private:
  MetalDevice();
  Result<std::string> make_entry(const Source& source, const KernelKey& key) const override;
  Status link(std::span<const Pending> batch) override;
  size_t code_bytes() const override;

  struct State;
  std::unique_ptr<State> state_;
};

// What the compiler is told of such a GPU.
Machine machine_of(const MetalProperties& properties);

}  // namespace smelt
