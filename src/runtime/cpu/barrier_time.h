// What it costs that all workers wait for each other.
#pragma once

#include "runtime/cpu/workers.h"

namespace smelt {

// Of launches of a kernel that does nothing, in seconds: the best of some runs.
double seconds_of_barrier(Workers& workers);

}  // namespace smelt
