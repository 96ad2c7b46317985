// What a Range node's loop becomes. The kind is arg.list[0] of the node.
#pragma once

#include <cstdint>

namespace smelt {

enum class RangeKind : uint8_t {
  Loop,    // a serial loop over an output axis
  Task,    // an output axis divided among workers (CPU threads, GPU blocks)
  Lane,    // all values at once: SIMD lanes on a CPU, threads of a block on a GPU (options LOCAL and GROUP)
  Unroll,  // all values in registers of one lane (options UPCAST and UNROLL)
  Reduce,  // a serial loop of a reduction
};

}  // namespace smelt
