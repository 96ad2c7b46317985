// A GPU of Apple, played by this processor: kernels are those that Metal would get, clang compiles them (compile.h),
// and all that their threads do is checked (threadgroup.h), within the memory that the plan says they touch. For
// finding out whether kernels are right: a thread at a time, it is slow.
#pragma once

#include <memory>

#include "runtime/metal/gpu.h"

namespace smelt {

// An Error where there is no clang.
Result<std::unique_ptr<MetalGpu>> open_shim_gpu();

}  // namespace smelt
