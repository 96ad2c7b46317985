// The GPU of this machine.
#pragma once

#include <memory>

#include "runtime/metal/gpu.h"

namespace smelt {

// The one that the system prefers. An Error where there is no Metal.
Result<std::unique_ptr<MetalGpu>> open_metal_gpu();

}  // namespace smelt
