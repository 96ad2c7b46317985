// An NVIDIA GPU as a device. Kernels are LLVM IR, made into PTX by LLVM (runtime/llvm/ptx.h) and into machine code by
// the driver (assemble.h), both kept on disk; plans are device graphs (plan.h).
#pragma once

#include <memory>
#include <string>

#include "runtime/cuda/context.h"
#include "runtime/device.h"

namespace smelt {

struct CudaOptions {
  int ordinal = 0;
  std::string cache_dir;  // of compiled kernels; empty: cache_folder() of base/dirs.h
  bool use_cache = true;
  std::string changes = {};  // of its machine, see base/machine_changes.h
};

// REQUIRES: the driver outlives the device.
Result<std::unique_ptr<Device>> open_cuda_device(const CudaDriver& driver, const CudaOptions& options);

// What the compiler is told of such a GPU.
Machine machine_of(const CudaProperties& properties);

}  // namespace smelt
