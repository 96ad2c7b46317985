// Where each weight goes when the weights of a model are packed: one after the other, in the order of the file.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf.h"
#include "model/dequant.h"

namespace smelt {

// Tensors, by their names in the file, and the layouts they are wanted in: a device that does not see the file wants a
// matrix of embeddings row by row as well as packed, where the head has the same.
using WantedLayouts = std::set<std::pair<std::string, WeightLayout>>;

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

  static PackPlan make(const GgufFile& file, const WantedLayouts& layouts);
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
