// MetalShimDevice: a GPU of Apple, played by this processor. Kernels are those that Metal would get; clang compiles
// them (compile.h), and all that their threads do is checked (threadgroup.h). For finding out whether kernels are
// right: a thread at a time, it is slow.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/compiling_device.h"

namespace smelt {

struct MetalShimOptions {
  std::string cache_dir;  // of compiled kernels; empty: cache_folder() of base/dirs.h
  bool use_cache = true;
  std::string changes = {};  // of its machine, see base/machine_changes.h
};

class MetalShimDevice : public CompilingDevice {
 public:
  // An Error where there is no clang.
  static Result<std::unique_ptr<MetalShimDevice>> open(const MetalShimOptions& options);
  ~MetalShimDevice() override;

  std::string name() const override { return "metal-shim"; }
  std::string title() const override;
  const Machine& machine() const override;
  int workers() const override { return 1; }

  Result<void*> allocate(size_t bytes, std::string_view what) override;
  void release(void* memory, size_t bytes) override;
  // A kernel may touch what was allocated, and nothing else of this process.
  bool host_sees_memory() const override { return false; }
  uint64_t available_memory() const override;
  Status upload(void* to, std::span<const std::byte> from) override;
  Status read_back(std::span<std::byte> to, const void* from) override;

  std::string assembly(const Source&) const override { return {}; }
  // How fast it reads says nothing.
  Result<const Executable*> memory_reader() override;

  Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) override;
  Status run(const CapturedPlan& plan, std::span<const int64_t> symbols, const RunOptions& options = {}) override;

 private:
  MetalShimDevice();
  Result<std::string> make_entry(const Source& source, const KernelKey& key) const override;
  Status link(std::span<const Pending> batch) override;
  size_t code_bytes() const override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
