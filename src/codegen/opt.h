// Kernel options: how the loops of a nest map to a machine. Each is applied by itself and checked for legality.
//
//   LOCAL(output axis, n)    n neighbours of an output axis become lanes: SIMD lanes here, threads of a block on a GPU
//   GROUP(reduce axis, n)    the same for a reduction axis; the lanes are combined at the end
//   UPCAST(output axis, n)   n neighbours are computed in registers of one lane, sharing what does not depend on them
//   UNROLL(reduce axis, n)   n terms of a reduction are written out
//   DOT(reduce axis, 4)      four neighbouring products of bytes are summed by one instruction (see packed_bytes.h)
//   MATRIX(output axis, n)   UPCAST, where sums of products of bytes of the n copies and of all lanes are one product
//                            of small matrices (see graph/matrix_shape.h): an instruction, on machines that have one
//   PACK(output axis, 4)     four neighbouring bytes are stored as one word
//   SPLIT(axis, n)           one loop becomes two, the inner of n; changes nothing by itself
//   FRONT(output axis)       the loop becomes the outermost
//   TASK(output axis)        the iterations of an outermost loop are shared out among workers
//   STAGE(output axis, n)    what its iterations share is made once for panels of n rows, on chip (see stage.h)
//
// Axes are numbered by axes_of(): output axes, outermost first, then reduction axes. Nothing here knows the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/node.h"
#include "graph/range_kind.h"

namespace smelt {

enum class OptKind : uint8_t {
  Local,
  Group,
  Upcast,
  Unroll,
  Dot,
  Matrix,
  Pack,
  Split,
  Front,
  Task,
  Stage
};
constexpr int kOptKinds = 11;

struct Opt {
  OptKind kind;
  int axis = 0;
  int64_t amount = 0;
  bool operator==(const Opt&) const = default;
};

std::string to_string(const Opt& opt);
std::string to_string(const std::vector<Opt>& opts);
Result<std::vector<Opt>> parse_opts(std::string_view text);  // the form that to_string prints

inline RangeKind kind_of(Ref range) { return static_cast<RangeKind>(range->arg.list[0]); }

// Whose values are written out: options UPCAST, UNROLL and MATRIX.
inline bool is_copies(Ref range) {
  return kind_of(range) == RangeKind::Unroll || kind_of(range) == RangeKind::Row;
}

// The ranges of the stores of a nest: output ranges of the store that has most, then those of reductions, in a fixed
// order. Ranges that options have already turned into lanes or registers are among them.
// Whether a value differs from lane to lane.
bool varies_in_lanes(Ref value);

Refs axes_of(const Refs& stores);
bool is_output_axis(const Refs& stores, Ref range);

// Why the option cannot be applied; empty if it can.
std::string why_not(const Refs& stores, const Opt& opt);

// REQUIRES: why_not(stores, opt) is empty.
Refs apply_opt(const Refs& stores, const Opt& opt);
Refs apply_opts(Refs stores, const std::vector<Opt>& opts);

// Largest number that is known to divide the size of a range, symbolic sizes included (v * 8 gives 8).
int64_t known_divisor(Ref size);

}  // namespace smelt
