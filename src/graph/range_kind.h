// What a Range node's loop becomes. The kind is arg.list[0] of the node.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/ensure.h"
#include "graph/node.h"

namespace smelt {

enum class RangeKind : uint8_t {
  Loop,       // a serial loop over an output axis
  Task,       // an output axis divided among workers (CPU threads, GPU blocks)
  Lane,       // all values at once: elements of a vector, or threads of a block (options LOCAL and GROUP)
  Unroll,     // all values in registers of one lane (options UPCAST and UNROLL)
  Reduce,     // a serial loop of a reduction
  Partial,    // a reduction in partial results, one for each value, combined by halves: see codegen/sum_order.h
  Byte,       // the four bytes of a word: products summed by one instruction (DOT), or stored together (PACK)
  Tile,       // a Task whose iterations run several nests one after the other: see schedule/tiles.h
  Chunk,      // a serial loop inside a tile around some of its nests, which run in each of its iterations
  MatrixRow,  // like Unroll, of rows whose sums of bytes one matrix instruction computes (option MATRIX)
  Sweep,      // a serial loop around all tasks of a worker, which does them in each iteration: see schedule/streams.h
};

inline RangeKind kind_of(Ref range) { return static_cast<RangeKind>(range->arg.list[0]); }

// A loop that no option has taken yet.
inline bool is_partial(Ref range) { return kind_of(range) == RangeKind::Partial; }
inline bool is_serial(Ref range) { return kind_of(range) == RangeKind::Loop || kind_of(range) == RangeKind::Reduce; }

inline bool is_range(Ref node, RangeKind kind) { return node->op == Op::Range && kind_of(node) == kind; }

// --- Numbers of ranges: no two loops in each other have the same one (verify.h).
//
// Lowering numbers a range by its axis, or by the height of its reduction, with 7 bits; the parts of range n are 2 n
// (the outer part) and 2 n + 1. So the number of a part begins with the bits of the whole, and no two ranges share one.
// A graph that needs more numbers than there are stops the program here, before anything is miscompiled.
constexpr int64_t kFirstOutputRange = 64;
constexpr int64_t kFirstReduceRange = 96;
constexpr int kRangeBits = 7;
constexpr int kMostRangeBits = 48;  // of parts of parts; range_order() tells no more apart

inline int bits_of_range(int64_t number) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(number))); }
inline bool is_range_number(int64_t number) { return number >= 0 && bits_of_range(number) <= kMostRangeBits; }

inline int64_t output_range(int64_t axis) {
  ENSURE(axis >= 0 && axis < kFirstReduceRange - kFirstOutputRange, "more axes than numbers for their ranges");
  return kFirstOutputRange + axis;
}
// `height`: how many reductions lie below.
inline int64_t reduce_range(int64_t height) {
  ENSURE(height >= 0 && height < (1 << kRangeBits) - kFirstReduceRange,
         "more reductions in each other than numbers for their ranges");
  return kFirstReduceRange + height;
}
inline int64_t outer_part(int64_t number) { return 2 * number; }
inline int64_t inner_part(int64_t number) { return 2 * number + 1; }
inline bool has_parts(int64_t number) { return bits_of_range(number) < kMostRangeBits; }
inline bool is_part(int64_t number) { return bits_of_range(number) > kRangeBits; }
// The number of the range that it is a part of, or a part of a part.
inline int64_t whole_range(int64_t number) { return number >> std::max(0, bits_of_range(number) - kRangeBits); }

// Orders numbers so that the parts of a range stand where it stood, the outer one first. REQUIRES: is_range_number().
inline int64_t range_order(int64_t number) {
  return number << (kMostRangeBits - std::max(kRangeBits, bits_of_range(number)));
}

// REQUIRES: `size` is simplified, as the sizes of ranges are not touched later.
inline Ref make_range(int64_t number, Ref size, RangeKind kind) {
  ENSURE(is_range_number(number), "a range was divided too often");
  return make(Op::Range, DType::I64, {size}, {.i = number, .list = {static_cast<int64_t>(kind)}});
}

// A Lane range of threads: the value of thread t of a block is t / stride % size. Those of a vector have no stride.
inline Ref make_thread_range(int64_t number, Ref size, int64_t stride) {
  return make(Op::Range, DType::I64, {size}, {.i = number, .list = {static_cast<int64_t>(RangeKind::Lane), stride}});
}
inline int64_t thread_stride(Ref range) { return range->arg.list.size() > 1 ? range->arg.list[1] : 0; }
inline bool is_of_threads(Ref range) { return thread_stride(range) > 0; }

}  // namespace smelt
