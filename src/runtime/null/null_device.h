// NullDevice: a machine that need not be here. Kernels are made for it, down to the assembly where LLVM has the target,
// and none of them runs: whatever would need the machine is an Error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace smelt {

class NullDevice : public Device {
 public:
  // `target`: what LLVM makes code for; of a machine of threads nothing is asked of it.
  NullDevice(Machine machine, CpuTarget target);

  std::string name() const override { return machine_.name; }
  std::string title() const override { return machine_.title; }
  const Machine& machine() const override { return machine_; }
  int workers() const override { return static_cast<int>(machine_.processors); }

  Result<void*> allocate(size_t bytes, std::string_view what) override;
  void release(void*, size_t) override {}
  bool host_sees_memory() const override { return !machine_.has_threads(); }
  uint64_t available_memory() const override { return static_cast<uint64_t>(machine_.memory_bytes); }
  Status upload(void* to, std::span<const std::byte> from) override;
  Status clear(void* to, size_t bytes) override;
  Status read_back(std::span<std::byte> to, const void* from) override;

  Result<std::vector<const Executable*>> compile(std::span<const Source> sources, const ProgressFn& progress = {},
                                                 const std::atomic<bool>* cancel = nullptr) override;
  std::string key_of(const Source&) const override { return {}; }
  std::optional<std::string> recall(std::string_view) const override { return std::nullopt; }
  void remember(std::string_view, std::string_view) const override {}
  // Empty where LLVM has no such target.
  std::string assembly(const Source& source) const override;
  Assembly linked_assembly(const Source& source) const override;
  std::string cache_problem() const override { return {}; }
  CompileStats stats() const override { return {}; }
  Result<const Executable*> memory_reader() override;

  Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) override;
  Result<uint64_t> start(const CapturedPlan& plan, std::span<const int64_t> symbols,
                         const RunOptions& options = {}) override;

 private:
  Error nothing_runs() const;

  const Machine machine_;
  const CpuTarget target_;
};

}  // namespace smelt
