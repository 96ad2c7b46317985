// Where the fields of a block lie in packed weights: in the order in which kernels use them, or in that of the file.
//
// Elements are computed one group after the other, so what the first group needs comes first. Then the reads of a
// kernel are one stream, line after line, which the prefetchers of processors follow; fields in the order of the file
// are several streams with jumps between them (Q6_K: 8 instead of 31 GB/s a core).
#pragma once

#include <vector>

#include "model/dequant.h"

namespace smelt {

// A field of a block. It is cut in equal sections, which lie `stride` bytes apart, from `begin`. In each of them the
// first `pairs` pieces of the field alternate with pieces of another one, and the rest of its pieces are neighbours.
//
//   Q6_K, half of a block: scales | ql[0] qh[0] ql[1] qh[1] ... ql[7] qh[7] | ql[8] ... ql[15]
//
// Offsets are bytes in a block of one row; with n rows interleaved, each piece is n pieces, so all are n times as
// large.
struct PackedField {
  BlockField field;
  int piece = 1;  // bytes
  int sections = 1, begin = 0, stride = 0;
  int pairs = 0, pairs_at = 0;  // pair i lies at pairs_at + 2 i pieces of a section,
  bool is_second = false;       // and the field has the second piece of it
  int rest_at = 0;              // where piece number `pairs` of a section lies

  int bytes() const { return field.count * size_of(field.dtype); }
  int pieces() const { return bytes() / sections / piece; }  // of a section
};

// All fields, in the order in which they lie. `piece`: WeightLayout::piece. REQUIRES: info_of(type).supported.
const std::vector<PackedField>& packed_fields(GgufType type, FieldOrder order = FieldOrder::Use, int piece = 4);

// Whether the two orders differ.
bool has_order_of_use(GgufType type);

}  // namespace smelt
