// Multi-head latent attention: a token leaves one latent in the cache, which all heads share as key and value.
#pragma once

#include "model/attention.h"

namespace smelt {

struct MlaParameters {
  int64_t heads = 0;
  int64_t q_lora = 0;       // 0: queries come from one matrix, attn_q
  int64_t kv_lora = 0;      // width of the latent
  int64_t nope = 0;         // of a head's query and key: without position
  int64_t v_head = 0;       // width of a head's value
  bool fused_kv_b = false;  // attn_kv_b in place of attn_k_b and attn_v_b (older files)
  RopeParameters rope = {};
  double softmax_scale = 0;  // of attention scores, YaRN's factor included

  int64_t key_width() const { return nope + rope.width; }
  int64_t cache_width() const { return kv_lora + rope.width; }  // of the row that one token leaves in a layer's cache
};

// `swaps_widths`: the file may have taken the widths of the cache for those of heads.
MlaParameters read_mla(Keys& keys, int64_t context, bool swaps_widths);
void write_mla(KeyWriter& out, const MlaParameters& mla);

// From attn_q_a (or attn_q) to attn_output.
std::vector<TensorShape> mla_tensors(const MlaParameters& mla, int64_t hidden);
std::vector<CachePart> mla_cache(const MlaParameters& mla, DType type);

// normed [T, D]
Attended latent_attention(Block& b, const MlaParameters& mla, Tensor normed);

}  // namespace smelt
