// The table of tensors at the begin of a .safetensors file:
//
//   u64 bytes of the table   JSON {"NAME": {"dtype": "BF16", "shape": [rows, k], "data_offsets": [begin, end]}, ...}
//   the tensors, offsets counted from here
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/types.h"

namespace smelt {

struct StoredTensor {
  std::string name;
  GgufType type = GgufType::F32;  // I8: bytes
  std::vector<uint64_t> dims;     // fastest first, as in GGUF files
  std::span<const std::byte> data;
};

Error safetensors_error(const std::string& where, const std::string& what);

// `path` is the name in errors. Tensors that a model cannot have (of integers) are an error.
Result<std::vector<StoredTensor>> read_tensor_table(std::span<const std::byte> file, const std::string& path);

}  // namespace smelt
