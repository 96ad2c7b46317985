// A model whose weights are damaged: the embedding of some tokens is no number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "gguf/gguf.h"

namespace smelt::test {

// `model`: a GGUF file. Bytes of ones are no number in every format, or have a scale that is none.
inline std::vector<std::byte> with_bad_tokens(std::vector<std::byte> model, std::span<const int32_t> tokens) {
  const GgufFile file = GgufFile::open_memory(model).take();
  const GgufTensor& embedding = **file.require("token_embd.weight");
  const ptrdiff_t begin = embedding.data - std::as_const(model).data();
  for (const int32_t token : tokens)
    std::fill_n(model.begin() + begin + static_cast<ptrdiff_t>(static_cast<uint64_t>(token) * embedding.row_bytes()),
                embedding.row_bytes(), std::byte{0xff});
  return model;
}

}  // namespace smelt::test
