// Block formats as tensor graphs: the one place where the bytes of a quantised weight get their
// meaning.
//
// A weight [rows, k] of type Q4_K is a Param of raw bytes u8 [rows, k / 256, 144]; its values are
// slices, bitcasts, shifts and products of those bytes, written with the natural axes of the
// format. All movement becomes index arithmetic, so a kernel that reads the weight reads exactly
// the file's bytes. The layout of a block is a line of gguf/quants.def.
#pragma once

#include <string>
#include <vector>

#include "gguf/types.h"
#include "graph/tensor.h"

namespace smelt {

struct BlockField {
  std::string_view name;
  DType dtype;
  int count;
  int offset;  // bytes from the start of the block
};

// The fields of a block, in file order. REQUIRES: info_of(type).supported.
const std::vector<BlockField>& block_fields(GgufType type);

// True for types of one element a block (F32, F16, BF16): their raw form is an ordinary array of
// that dtype.
bool is_plain(GgufType type);

// True for types whose blocks of 256 elements have several groups, each with a scale.
bool has_superblocks(GgufType type);

// Of the fields of a block: that in which kernels use them (packed_block.h), or that of the file.
enum class FieldOrder { Use, File };

// How the blocks of a weight lie in memory. As in the file: row by row. Interleaved by n: groups of n rows, and in a
// group block b of all its rows together, its fields in some order, cut into pieces (piece_of()) that alternate between
// the rows. So n lanes that hold n rows load neighbouring bytes.
//
//   [rows / n, blocks, pieces, n, piece]
//
// The rows themselves may lie in another order than in the file: of each run of r rows those at even places first, then
// those at odd ones. Pairs of neighbours, as some models rotate them, are then halves of the run, and lanes that hold
// rows hold one half each.
struct WeightLayout {
  int interleave = 1;  // n; 1: as in the file
  FieldOrder order = FieldOrder::Use;
  int split = 0;  // r; 0: rows keep their order
  int piece = 4;  // bytes of a piece of each field that has as many, see piece_of()
  auto operator<=>(const WeightLayout&) const = default;

  bool is_packed() const { return interleave > 1; }                 // else the file is read in place
  int rows_together() const { return split ? split : interleave; }  // that trade places
};
// Of a field, or a section of it, of so many bytes: those `wanted` (4 or 16), if they divide it, else 4, 2 or 1.
int piece_of(int bytes, int wanted);

// Whether a weight of this type with this many rows can be interleaved.
bool can_interleave(GgufType type, int64_t rows, int interleave);
// And split in runs, too: a group of rows is of one half.
bool can_split(int64_t rows, int interleave, int run);

// Rewrites `rows` x `blocks` blocks from the file's layout to a packed one. `to` and `from` do not overlap.
// REQUIRES: rows is a multiple of layout.rows_together().
void interleave_rows(GgufType type, WeightLayout layout, int64_t rows, int64_t blocks, const std::byte* from,
                     std::byte* to);

// The bytes of a weight as they lie in memory: in the file's layout u8 [rows..., k / elements, block bytes], or
// [rows..., k] of the dtype of a plain type; interleaved u8 [rows... / n, k / elements, n * block bytes].
// REQUIRES: k is whole blocks; can_interleave() of the last axis of rows.
Tensor raw_weight(int slot, GgufType type, std::vector<Dim> rows, int64_t k, std::string name,
                  WeightLayout layout = {});

// The f32 values [..., k] of what raw_weight made, or of a gather or slice along its leading axes.
Tensor dequantize(Tensor raw, GgufType type, WeightLayout layout = {});

// dequantize(raw_weight(...)): f32 [rows..., k].
Tensor weight(int slot, GgufType type, std::vector<Dim> rows, int64_t k, std::string name, WeightLayout layout = {});

}  // namespace smelt
