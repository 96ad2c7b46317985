// What a Range node's loop becomes. The kind is arg.list[0] of the node.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "graph/node.h"

namespace smelt {

enum class RangeKind : uint8_t {
  Loop,  // a serial loop over an output axis
  Task,  // an output axis divided among workers (CPU threads, GPU blocks)
  Lane,  // all values at once: SIMD lanes on a CPU, threads of a block on a GPU (options LOCAL and GROUP)
  Unroll,  // all values in registers of one lane (options UPCAST and UNROLL)
  Reduce,  // a serial loop of a reduction
  Packed,  // the four bytes of a word, whose products are summed by one instruction (option DOT)
  Tile,    // a Task whose iterations run several nests one after the other: see schedule/tiles.h
  Step,  // a serial loop inside a tile around some of its nests, which run in each of its iterations
  Row,   // like Unroll, of rows whose sums of bytes one matrix instruction computes (option MATRIX)
  Pass,  // a serial loop around a worker's tasks, which it does all in each iteration: see schedule/streams.h
};

// Numbers of ranges. Those that lowering makes have 7 bits; splitting range n makes 2 n (the outer part) and 2 n + 1,
// so no two ranges of a kernel ever share a number.
constexpr int64_t kFirstOutputRange = 64;
constexpr int64_t kFirstReduceRange = 96;

// Orders numbers so that the parts of a range stand where it stood, the outer one first.
inline int64_t range_order(int64_t number) {
  const int bits = std::max(7, static_cast<int>(std::bit_width(static_cast<uint64_t>(number))));
  return bits <= 48 ? number << (48 - bits) : number >> (bits - 48);
}

// REQUIRES: `size` is simplified, as the sizes of ranges are not touched later.
inline Ref make_range(int64_t number, Ref size, RangeKind kind) {
  return make(Op::Range, DType::I64, {size}, {.i = number, .list = {static_cast<int64_t>(kind)}});
}

}  // namespace smelt
