// The bytes of a GGUF file before its tensor data, written from hyper-parameters.
#pragma once

#include <string>
#include <vector>

#include "app/synthetic_shapes.h"

namespace smelt {

// Header, metadata and tensor table, padded to `alignment`, which is also that of the tensors: tensor i begins at
// head.size() + offsets[i], and the file has head.size() + data_bytes bytes. There is no tokenizer.
struct SyntheticFile {
  std::string head;
  std::vector<uint64_t> offsets;
  uint64_t data_bytes = 0;
};
SyntheticFile synthetic_file(const SyntheticSpec& spec, const std::vector<SyntheticTensor>& tensors,
                             uint64_t alignment);

}  // namespace smelt
