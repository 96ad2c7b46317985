// Tensors that a model asks for, and whether a file has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace smelt {

// A tensor that a graph binds: its name ("blk.3." left out for those of a layer) and shape, slowest axis first.
struct TensorShape {
  std::string name;
  std::vector<int64_t> rows;  // all but the last axis; empty for vectors
  int64_t k = 0;              // elements of a row
  double share_of_read = 1;   // the part of its bytes that one token reads
  // Of each run of so many rows (of a vector: elements) the model has those at even places first, then those at odd
  // ones, see WeightLayout; 0: the order of the file.
  int split = 0;
};

std::string layer_prefix(int64_t layer);  // "blk.3."

// The tensor that holds what all elements of a weight are multiplied with, which a file may have: "attn_q.scale" of
// "attn_q.weight", as files of NVFP4 do. Empty for what is no weight.
std::string name_of_scale(const std::string& name);

// Every tensor is there, in a type that we compute with and in the right shape; else an Error names it.
Status check_tensors(const GgufFile& file, const std::string& prefix, const std::vector<TensorShape>& tensors);

}  // namespace smelt
