// How fast a device reads its memory.
#pragma once

#include <cstddef>

#include "runtime/device.h"

namespace smelt {

// Bytes a second that the device reads from memory far larger than its caches: the best of a few passes. `most`: bytes
// that this memory has at most; fewer take less time and tell less where caches are large.
Result<double> measure_bandwidth(Device& device, size_t most = size_t{2} << 30);

}  // namespace smelt
