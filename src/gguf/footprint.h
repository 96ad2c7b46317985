// Footprint: what running a model takes, computed from its metadata and tensor table before
// anything is loaded.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "gguf/gguf.h"

namespace smelt {

struct Footprint {
  std::string architecture;
  uint64_t layers = 0;        // of the trunk: without multi-token prediction layers
  uint64_t experts = 0;       // 0: not a mixture of experts
  uint64_t experts_used = 0;  // by one token

  uint64_t weight_bytes = 0;  // of all tensors
  uint64_t token_bytes = 0;   // of weights that one decoded token reads
  uint64_t cache_values = 0;  // that one token of context keeps, in all layers
  uint64_t work_bytes = 0;    // rough: activations of a prefill chunk, and logits

  // Sizes over 64 bits, which only a damaged file has, are UINT64_MAX.
  uint64_t cache_bytes(uint64_t context, uint64_t value_bytes) const;
};

// Missing keys count as zero, so that any file has a footprint; keys of the wrong type or out of
// range are errors.
Result<Footprint> footprint(const GgufFile& file);

// The part of the tensor's bytes that one decoded token reads: one row of an embedding, the chosen
// experts, otherwise all.
uint64_t bytes_read_per_token(const GgufFile& file, const GgufTensor& tensor, const Footprint& model);

}  // namespace smelt
