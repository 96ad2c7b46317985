// A GPU of Apple, or what plays one (gpu.h), as a device. Kernels are text in the Metal Shading Language, kept on disk
// with what Metal made of it; memory is shared with the host; a plan is encoded once (plan.h).
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/metal/gpu.h"

namespace smelt {

struct MetalOptions {
  std::string name = "metal";  // of the device
  std::string cache_dir;       // of compiled kernels; empty: cache_folder() of base/dirs.h
  bool use_cache = true;
  std::string changes = {};         // of its machine, see base/machine_changes.h
  int64_t most_parts = kMostParts;  // of a launch, where it has the choice
};

Result<std::unique_ptr<Device>> open_metal_device(std::unique_ptr<MetalGpu> gpu, const MetalOptions& options);

// What the compiler is told of such a GPU.
Machine machine_of(const MetalProperties& properties);

}  // namespace smelt
