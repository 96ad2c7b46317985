// A kernel that reads a stretch of memory, see Device::memory_reader().
#pragma once

#include "runtime/source.h"

namespace smelt {

Source metal_memory_reader(int cores);

}  // namespace smelt
