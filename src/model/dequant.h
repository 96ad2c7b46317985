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

// The bytes of a weight as they lie in the file: u8 [rows..., k / elements, block bytes], or
// [rows..., k] of the dtype of a plain type. REQUIRES: k is whole blocks.
Tensor raw_weight(int slot, GgufType type, std::vector<Dim> rows, int64_t k, std::string name);

// The f32 values [..., k] of what raw_weight made, or of a gather or slice along its leading axes.
Tensor dequantize(Tensor raw, GgufType type);

// dequantize(raw_weight(...)): f32 [rows..., k].
Tensor weight(int slot, GgufType type, std::vector<Dim> rows, int64_t k, std::string name);

}  // namespace smelt
