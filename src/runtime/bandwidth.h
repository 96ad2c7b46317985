// How fast a device reads its memory.
#pragma once

#include <cstddef>

#include "runtime/device.h"

namespace smelt {

// Bytes a second that the device reads from memory far larger than its caches: the best of a few passes.
Result<double> measure_bandwidth(Device& device);

}  // namespace smelt
