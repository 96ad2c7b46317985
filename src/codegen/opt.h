// Kernel options: how the loops of a nest map to a machine. Each is applied by itself and checked for legality.
//
//   LOCAL(output axis, n)    n neighbours of an output axis become lanes: elements of a vector, or threads of a block
//   GROUP(reduce axis, n)    the same for a reduction axis; the lanes are combined at the end. Of a float sum: of its
//                            partial sums (see sum_order.h)
//   UPCAST(output axis, n)   n neighbours are computed in registers of one lane, sharing what does not depend on them
//   UNROLL(reduce axis, n)   n terms of a reduction are written out
//   DOT(reduce axis, 4)      four neighbouring products of bytes are summed by one instruction (see packed_bytes.h)
//   MATRIX(output axis, n)   UPCAST, where sums of products of bytes of the n copies and of all lanes are one product
//                            of small matrices: an instruction, on machines that have one. Its operands lie in memory,
//                            or in the registers of a warp (graph/matrix_shape.h)
//   PACK(output axis, 4)     four neighbouring bytes are stored as one word
//   SPLIT(axis, n)           one loop becomes two, the inner of n; changes nothing by itself
//   FRONT(output axis)       the loop becomes the outermost
//   TASK(output axis)        the iterations of an outermost loop are shared out among workers
//   PANEL(output axis, n)    what its iterations share is made once for panels of n rows, on chip (see panel.h)
//
// An axis is a range of the nest, by its id (range_id.h). Of the machine, options know only what lanes are and what is
// on chip (LaneRules). None of them changes a bit of a result: a float sum keeps its order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/range_id.h"
#include "graph/node.h"
#include "graph/on_chip.h"
#include "graph/views.h"

namespace smelt {

enum class OptKind : uint8_t { Local, Group, Upcast, Unroll, Dot, Matrix, Pack, Split, Front, Task, Panel };
constexpr int kOptKinds = 11;

// The level of the machine that LOCAL and GROUP fill. Lanes of a vector: one axis of a nest, whose neighbours lie side
// by side. Threads of a block: several axes, the first one taken has neighbours in neighbouring threads
// (block_threads.h).
struct LaneRules {
  int64_t block_threads = 1;       // most of a block; 1: lanes are those of a vector
  MatrixUnit unit = kSumsOfWords;  // that MATRIX makes use of; m is 0 where there is none
  MatrixUnit halves = {};          // the same for products of halves
  OnChipScope on_chip = {};        // what a nest may keep on chip with the options; no bytes: as much as it likes
  bool are_threads() const { return block_threads > 1; }
};

struct Opt {
  OptKind kind;
  RangeId axis = {};
  int64_t amount = 0;
  bool operator==(const Opt&) const = default;
};

std::string to_string(const Opt& opt);
std::string to_string(const std::vector<Opt>& opts);
Result<std::vector<Opt>> parse_opts(std::string_view text);  // the form that to_string prints

// Whose values are written out: options UPCAST, UNROLL and MATRIX.
inline bool is_copies(Ref range) {
  return kind_of(range) == RangeKind::Unroll || kind_of(range) == RangeKind::MatrixRow;
}

// How often a reduction is there once expand() has written everything out.
int64_t copies_of(Ref reduce);

// Whether a value differs from lane to lane.
bool varies_in_lanes(Ref value);

// The axes of a nest: output ranges of the store that has most, outermost first, then ranges of reductions, in a fixed
// order. Ranges that options have already turned into lanes or registers are among them.
Refs axes_of(const Refs& stores);
bool is_output_axis(const Refs& stores, Ref range);

// The id of an axis; of another range an id that no axis has. And the axis of an id; null if there is none.
RangeId id_of(const Refs& stores, Ref axis);
Ref axis_of(const Refs& stores, RangeId id);

// The stores with an option applied, or why it cannot be.
struct OptResult {
  Refs stores = {};
  std::string why_not = {};  // empty if it can be
  explicit operator bool() const { return why_not.empty(); }
};
OptResult try_opt(const Refs& stores, const Opt& opt, const LaneRules& rules = {});

// For who wants one of the two.
std::string why_not(const Refs& stores, const Opt& opt, const LaneRules& rules = {});
Refs apply_opt(const Refs& stores, const Opt& opt, const LaneRules& rules = {});  // REQUIRES: it can be applied.
Refs apply_opts(Refs stores, const std::vector<Opt>& opts, const LaneRules& rules = {});

// The reductions over a range in `count` partial results each, behind those that they have, and why they cannot be.
// Lanes of a vector: what they are part of must have none yet. Threads combine those of an inner sum among themselves
// before each term of the outer one, and a sum may have some along several ranges. For order_sums().
Refs in_partials(const Refs& stores, Ref range, int64_t count);
std::string why_no_partials(const Refs& stores, Ref range, const LaneRules& rules);

// The last range of a reduction's partial results, which are combined last; null if it has none.
Ref last_partials(Ref reduce);

}  // namespace smelt
