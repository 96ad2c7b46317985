// How fast a CPU reads memory.
#pragma once

#include <cstddef>

#include "runtime/cpu/kernel_entry.h"

namespace smelt {

class Workers;

// A kernel that reads from buffers[0] up to buffers[1], in whole lines of 64 bytes; a line that is cut is left out.
KernelEntry memory_reading_kernel();
// Writes there instead. Each worker touches its own part first, so that on several sockets pages lie near their reader.
KernelEntry memory_touching_kernel();

// Gigabytes (10^9) per second that all workers together read from a buffer far larger than the caches: the best of a
// few passes, about 0.2 s in all. The roofline that statistics compare with. 0 if there is no memory for the buffer.
double read_bandwidth(Workers& workers, size_t bytes = size_t{256} << 20);

}  // namespace smelt
