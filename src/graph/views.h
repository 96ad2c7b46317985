// Views: the parts of kernel-level nodes by name. Which source and which argument is what is written in ops.def,
// checked by verify(), and known only here.
#pragma once

#include <span>

#include "graph/args.h"
#include "graph/node.h"
#include "graph/range_kind.h"

namespace smelt {

// `value` at byte `offset` of `buffer`, for all values of the ranges, outermost first.
struct StoreView {
  explicit StoreView(Ref store)
      : node(store),
        buffer(store->src[0]),
        offset(store->src[1]),
        value(store->src[2]),
        ranges(std::span(store->src).subspan(3)) {}
  Ref node, buffer, offset, value;
  std::span<const Ref> ranges;
};

struct LoadView {
  explicit LoadView(Ref load) : buffer(load->src[0]), offset(load->src[1]) {}
  Ref buffer, offset;
};

struct RangeView {
  explicit RangeView(Ref range) : number(range->arg.i), size(range->src[0]), kind(kind_of(range)) {}
  // REQUIRES: the size is a constant.
  int64_t count() const { return *const_int(size); }
  // The trip count, or the greatest that it may be.
  int64_t most() const { return std::max<int64_t>(size->max, 0); }
  int64_t number;
  Ref size;
  RangeKind kind;
};

// The same loop of another kind, or another length.
inline Ref with_kind(Ref range, RangeKind kind) { return make_range(range->arg.i, range->src[0], kind); }
inline Ref with_size(Ref range, Ref size) { return make(Op::Range, range->dtype, {size}, range->arg); }

// A reduction of a kernel: the values that it combines, then its ranges, outermost first.
struct ReduceView {
  explicit ReduceView(Ref reduce);
  std::span<const Ref> values, ranges;
};

// A softmax whose rounds have an element for each of the threads of a warp: a score, which is that of the element
// `lane`, and the values of all elements, or one that is that of the element `lane`, too. The ranges are those of the
// rounds and `lane`.
struct SharedRoundView {
  explicit SharedRoundView(Ref softmax)
      : score(ReduceView(softmax).values[0]),
        values(ReduceView(softmax).values.subspan(1)),
        lane(ReduceView(softmax).ranges.back()) {}
  bool has_all_values() const { return values.size() > 1; }
  Ref score;
  std::span<const Ref> values;
  Ref lane;
};

inline bool has_shared_rounds(Ref reduce) { return reduce->op == Op::SoftmaxSum && !reduce->arg.list.empty(); }

// One value of all lanes along a range.
struct LaneReduceView {
  explicit LaneReduceView(Ref node) : reduce(static_cast<Op>(node->arg.i)), value(node->src[0]), lanes(node->src[1]) {}
  Op reduce;
  Ref value, lanes;
};

// The ranges that a store or a reduction runs over, outermost first; and the same node with others.
Refs own_ranges(Ref node);
Ref with_ranges(Ref node, std::span<const Ref> ranges);

// The first range of a kind; null if there is none.
Ref first_of_kind(std::span<const Ref> ranges, RangeKind kind);
Refs all_of_kind(std::span<const Ref> ranges, RangeKind kind);

Ref make_store(Ref buffer, Ref offset, Ref value, std::span<const Ref> ranges);
// `most`: no integer that is loaded is above it, or below 0 (0: not known).
Ref make_load(DType dtype, Ref buffer, Ref offset, int64_t most = 0);
inline int64_t most_loaded(Ref load) { return load->arg.i; }
Ref make_reduce(Op op, DType dtype, Refs values, std::span<const Ref> ranges);
Ref make_lane_reduce(Op reduce, Ref value, Ref lanes);

// Of a Param its slot, or the argument of the kernel; of a Temp or Local its number.
inline int64_t number_of_buffer(Ref buffer) { return buffer->arg.i; }

// An on-chip buffer. REQUIRES: no other one of the kernel has this number.
inline Ref make_local(int64_t number, DType dtype, int64_t bytes) {
  return make(Op::Local, dtype, {}, {.i = number, .list = {bytes}});
}
inline int64_t local_bytes(Ref local) { return local->arg.list[0]; }

// Of a sink of a kernel's tree: the stores of a nest.
inline const Refs& stores_of(Ref nest) { return nest->src; }

// An entry of a TopK: of which, and which of the elements that it takes.
inline Ref topk_of(Ref item) { return item->src[0]; }
inline int64_t top_place(Ref item) { return item->arg.i; }

// A product of fragments: its words, and what it is added to, by register; none: it begins at zero. Of halves the last
// two words are a buffer and the offset of its columns there.
struct MatrixDotView {
  explicit MatrixDotView(Ref product);
  std::span<const Ref> words, sums;
};
struct ColumnsView {
  explicit ColumnsView(Ref product_of_halves);
  size_t at;  // of the buffer among the sources
  Ref buffer, offset;
};

// A product of matrices in memory.
struct MatrixInMemoryView {
  explicit MatrixInMemoryView(Ref product)
      : a(product->src[0]), a_offset(product->src[1]), b(product->src[2]), b_offset(product->src[3]) {}
  Ref a, a_offset, b, b_offset;
};

// The product whose sums another one goes on with; null if those are no such sums.
Ref product_before(Ref product);
// Whether the first one of such a chain begins at zero.
bool begins_at_zero(Ref product);

// An element of a product of small matrices.
struct MatrixItemView {
  explicit MatrixItemView(Ref item)
      : product(item->src[0]), number(item->src[1]), lane(item->src.size() > 2 ? item->src[2] : Ref()) {}
  Ref product, number;
  Ref lane;  // null in fragments
};

}  // namespace smelt
