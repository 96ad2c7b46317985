// Grouped-query attention: several heads share a key and a value, which every token leaves in the cache.
//
//   q, k, v = x Wq + bq, x Wk + bk, x Wv + bv        biases and norms where the model has them
//   q, k = rotate(norm(q)), rotate(norm(k))          each head for itself
//   out = softmax(q k' softmax_scale) v Wo + bo      with sinks a learned number of each head is one more score, which
//                                                    takes its share and gives nothing; with gates the values of a
//                                                    head are multiplied with a sigmoid before Wo
#pragma once

#include "model/attention.h"

namespace smelt {

struct GqaParameters {
  int64_t heads = 0;
  int64_t kv_heads = 0;                    // divides heads
  int64_t key_width = 0, value_width = 0;  // of a head
  bool has_bias = false;                   // of queries, keys and values
  bool is_fused = false;                   // these three are one matrix: attn_qkv
  bool is_gated = false;                   // attn_q has the rows of a gate behind those of each query
  bool has_output_bias = false;
  bool has_sinks = false;
  bool has_norms = false;         // of each head of queries and keys, before the rotation
  bool norms_span_heads = false;  // or of all heads together
  RopeParameters rope = {};
  RopeOrder order = RopeOrder::Pairs;
  std::string tables = {};  // suffix of its tables of angles
  int64_t window = 0;       // a token sees this many positions, its own included; 0: all
  double softmax_scale = 0;
  // Queries at position p are multiplied by 1 + temperature * log(1 + floor(p / temperature_span)).
  double temperature = 0;
  int64_t temperature_span = 0;

  int64_t heads_per_key() const { return heads / kv_heads; }
  // Queries and keys may have their values in any order, if it is the same one: pairs of neighbours are brought apart
  // (TensorShape::split), so that lanes hold one value of each pair. 0: they lie as in the file.
  int split() const;
};

// What no key says.
struct GqaTraits {
  RopeOrder order = RopeOrder::Pairs;
  bool needs_bias = false;   // files without are refused; others have what is in the file
  bool needs_norms = false;  // likewise
  bool needs_sinks = false;  // and an output bias; others have none
  bool is_fused = false;     // see GqaParameters
  bool is_gated = false;     // likewise
  bool norms_span_heads = false;
};

GqaParameters read_gqa(Keys& keys, const Hyperparameters& model, const GqaTraits& traits);
void write_gqa(KeyWriter& out, const GqaParameters& gqa);

// From attn_q to attn_output.
std::vector<TensorShape> gqa_tensors(const GqaParameters& gqa, int64_t hidden);
std::vector<PositionTable> gqa_tables(const GqaParameters& gqa);
std::vector<CachePart> gqa_cache(const GqaParameters& gqa, DType type);

// normed [T, D]
Attended grouped_query_attention(Block& b, const GqaParameters& gqa, Tensor normed);

}  // namespace smelt
