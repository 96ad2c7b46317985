// Where each weight goes when the weights of a model are packed: one after the other, in the order of the file.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "model/dequant.h"

namespace smelt {

struct PackedTensor {
  const GgufTensor* tensor;
  WeightLayout layout;
  int64_t offset;  // bytes from the start of the packed weights, a multiple of 64
  bool is_mapped;  // the tensor lies in a mapping of its file
};

struct PackPlan {
  std::vector<PackedTensor> tensors;
  int64_t bytes = 0;
  std::vector<std::span<const std::byte>> mappings;  // of the files that are mapped

  // `layouts`: for each tensor (by its name in the file) the layout it is wanted in.
  static PackPlan make(const GgufFile& file, const std::map<std::string, WeightLayout>& layouts);
};

// Whole groups of rows of one tensor: what a thread packs at a time.
struct PackPiece {
  const PackedTensor* of;
  int64_t row = 0, rows = 0;

  const std::byte* from() const { return of->tensor->data + row * row_bytes(); }
  int64_t to() const { return of->offset + row * row_bytes(); }  // from the start of the packed weights
  int64_t row_bytes() const { return static_cast<int64_t>(of->tensor->row_bytes()); }
  int64_t bytes() const { return rows * row_bytes(); }
};

// All of the plan in pieces of about `bytes` bytes. They point into the plan.
std::vector<PackPiece> cut_in_pieces(const PackPlan& plan, int64_t bytes);

}  // namespace smelt
