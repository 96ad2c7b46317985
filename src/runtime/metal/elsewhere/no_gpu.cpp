// Of systems that are not Apple's.
#include "runtime/metal/open.h"

namespace smelt {

Result<std::unique_ptr<MetalGpu>> open_metal_gpu() {
  return Error{"[metal] there is no Metal on this system; use --device metal-shim to look at what its kernels do"};
}

}  // namespace smelt
