// Grouped-query attention: several heads share a key and a value, which every token leaves in the cache.
#pragma once

#include "model/attention.h"

namespace smelt {

struct GqaParameters {
  int64_t heads = 0;
  int64_t kv_heads = 0;                    // divides heads
  int64_t key_width = 0, value_width = 0;  // of a head
  bool has_bias = false;                   // of queries, keys and values
  RopeParameters rope = {};                // of whole heads, in adjacent pairs
  double softmax_scale = 0;

  int64_t heads_per_key() const { return heads / kv_heads; }
};

GqaParameters read_gqa(Keys& keys, int64_t hidden, int64_t context);
void write_gqa(KeyWriter& out, const GqaParameters& gqa);

// From attn_q to attn_output.
std::vector<TensorShape> gqa_tensors(const GqaParameters& gqa, int64_t hidden);
std::vector<CachePart> gqa_cache(const GqaParameters& gqa, DType type);

// normed [T, D]
Attended grouped_query_attention(Block& b, const GqaParameters& gqa, Tensor normed);

}  // namespace smelt
