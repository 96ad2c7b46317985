// KernelBuilder: from the tree of a kernel to what a device launches. Engine, tuner, judge and replay all come this
// way:
//
//   tree -> generate() -> Program -> source() -> Source -> Device::compile() -> Executable
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "runtime/device.h"

namespace smelt {

// The program as text for devices of this machine.
Source source_of(const Program& program, const Machine& machine);

class KernelBuilder {
 public:
  // `symbols`: names of the launch values, in the order in which they are given to the device. REQUIRES: the device
  // outlives this.
  KernelBuilder(Device& device, std::vector<std::string> symbols);

  Device& device() const { return *device_; }
  const Machine& machine() const { return device_->machine(); }
  const std::vector<std::string>& symbols() const { return symbols_; }

  // What generate() is asked for such a kernel; without options the heuristic chooses.
  CodegenRequest request(Ref tree, std::string name, KernelOpts opts = {}) const;
  Program program(Ref tree, const std::string& name, const KernelOpts& opts) const;
  Source source(const Program& program) const { return source_of(program, machine()); }

  // Compiles programs in one batch. Thread-safe. `leave`: what a failed ENSURE in a program, by number, leaves behind
  // (base/ensure_dump.h).
  using LeaveFn = std::function<std::string(size_t)>;
  Result<std::vector<const Executable*>> build(std::span<const Program> programs, const LeaveFn& leave = {}) const;
  Result<const Executable*> build(const Program& program) const;

 private:
  Device* device_;
  std::vector<std::string> symbols_;
};

// A readable name that is the same in every process: what the kernel stores, and its key.
std::string kernel_name(Ref tree);

}  // namespace smelt
