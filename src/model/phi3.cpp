// Architecture phi3 (Phi 3, 3.5 and 4): queries, keys and values are one matrix, gate and up another; halves of a head
// rotate. Models for long contexts divide the frequencies by one list of factors up to the context that they were first
// made for and by another beyond it.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

Result<std::shared_ptr<const Model>> read_phi3(const GgufFile& file, const std::string& name) {
  Keys keys(file, name);
  TransformerParameters p{.is_fused = true};
  SMELT_TRY(common, read_common(keys, name));
  p.common = common;
  p.attention = read_gqa(keys, p.common, {.order = RopeOrder::Halves, .is_fused = true});
  p.attention.window = keys.integer_or("attention.sliding_window", 0, 0, kMostContext);
  p.dense_layers = p.common.layers;
  p.dense_width = keys.integer("feed_forward_length", 1, kMostWidth / 2);
  RopeParameters& rope = p.attention.rope;
  rope.attention_factor = keys.real_or("rope.scaling.attn_factor", 1, 1e-3, 1e3);
  rope.original_context = keys.integer_or("rope.scaling.original_context_length", p.common.context, 1, kMostContext);
  SMELT_CHECK(keys.status());
  SMELT_TRY(divisors, read_divisors(file, "rope_factors_short.weight", rope.width / 2));
  SMELT_TRY(long_divisors, read_divisors(file, "rope_factors_long.weight", rope.width / 2));
  rope.divisors = std::move(divisors);
  rope.long_divisors = std::move(long_divisors);
  return transformer_of(file, std::move(p));
}

}  // namespace smelt
