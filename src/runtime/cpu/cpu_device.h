// The processor as a device. Compiles kernels (through the cache), owns the worker threads; its memory is that of the
// process.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "runtime/cpu/kernel_entry.h"
#include "runtime/device.h"
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

// Its plans may have kernels of any such device of the process: code is code.
Result<std::unique_ptr<Device>> open_cpu_device(const CpuOptions& options);

// What a kernel of such a device is: the code itself.
KernelEntry cpu_entry_of(const Executable* kernel);

}  // namespace smelt
