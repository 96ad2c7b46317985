// Lowering a tensor to a scalar function of indices: movement operations disappear into index arithmetic here.
//
//   at(reshape(x, [4, 8]), [i, j])        = at(x, [i * 8 + j])
//   at(gather(w, rows), [i, j])           = at(w, [at(rows, [i]), j])
//   at(sum(x, 1), [i])                    = reduce_sum(at(x, [i, r]), r)      with a fresh range r
//   at(x, [i, j]) where x has a buffer    = load(buffer, (i * columns + j) * size)
//
// Where a tensor has a buffer is told by `place`; everything else is recomputed inside the kernel that asks for it.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>

#include "graph/node.h"

namespace smelt {

// Row-major memory that holds a tensor, or the part of it that a tile is made of: a Param, Temp or Local node.
struct Place {
  Ref buffer;
  // Of a part: its size along each axis; index i along an axis is at i % extent. Empty: all of the tensor.
  std::vector<int64_t> extents;
  int64_t padding = 0;    // bytes between the parts that the first axis of more than one element counts
  bool in_cores = false;  // of a part: the first axis counts columns for a unit, as graph/matrix_shape.h has them
};

class Lowering {
 public:
  // From now on `tensor` is read from `buffer`. REQUIRES: called before any at() that reaches it.
  void place(Ref tensor, Ref buffer, std::vector<int64_t> extents = {}, int64_t padding = 0, bool in_cores = false) {
    places_[tensor.get()] = {buffer, std::move(extents), padding, in_cores};
  }
  bool is_placed(Ref tensor) const { return places_.contains(tensor.get()); }

  // The value of `tensor` at `index` (i64 scalars, one per axis), placed tensors as loads.
  Ref at(Ref tensor, const Refs& index);

  // Stores all of `tensor` (computed, even if it is placed) to row-major `buffer`, or to where it is placed.
  Ref store(Ref tensor, Ref buffer);

  // Stores the values of a Write to its rows.
  Ref store_rows(Ref write);

 private:
  Ref compute(Ref tensor, const Refs& index);
  Ref offset_in(const Place& place, Ref tensor, const Refs& index) const;
  Ref reduction(Ref tensor, const Refs& index);
  Ref reinterpret(Ref tensor, const Refs& index);
  int height(Ref tensor);

  std::unordered_map<const Node*, Place> places_;
  std::map<std::pair<const Node*, std::vector<const Node*>>, Ref> memo_;
  std::unordered_map<const Node*, int> heights_;
};

// Output loops over a shape: one Range per axis that is not 1, the constant 0 for the others.
struct OutputLoops {
  Refs index;   // one per axis
  Refs ranges;  // the Range nodes among them, outermost first
};
OutputLoops output_loops(const Shape& shape);

// The Param below a chain of Writes.
Ref written_buffer(Ref write);

// Byte offset of element `index` of a row-major buffer.
Ref byte_offset(const Shape& shape, const Refs& index, DType dtype);

// Number of elements, as an i64 scalar.
Ref element_count(const Shape& shape);

}  // namespace smelt
