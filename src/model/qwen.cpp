// Architectures qwen2 (Qwen 2 and 2.5: biases of queries, keys and values), qwen3 (norms of each head in their place),
// qwen3moe (its experts), and qwen35 and qwen35moe, whose layers are delta nets but for every fourth one. Halves of a
// head rotate.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

Result<std::shared_ptr<const Model>> read_qwen2(const GgufFile& file, const std::string& name) {
  Keys keys(file, name);
  TransformerParameters p;
  SMELT_TRY(common, read_common(keys, name));
  p.common = common;
  p.attention = read_gqa(keys, p.common, {.order = RopeOrder::Halves, .needs_bias = true});
  p.dense_layers = p.common.layers;
  p.dense_width = keys.integer("feed_forward_length", 1, kMostWidth);
  SMELT_CHECK(keys.status());
  return transformer_of(file, std::move(p));
}

Result<std::shared_ptr<const Model>> read_qwen3(const GgufFile& file, const std::string& name) {
  Keys keys(file, name);
  TransformerParameters p;
  SMELT_TRY(common, read_common(keys, name));
  p.common = common;
  p.attention = read_gqa(keys, p.common, {.order = RopeOrder::Halves, .needs_norms = true});
  if (name == "qwen3moe") {
    p.experts = read_experts(keys, 0, {.routing = Routing::Softmax, .normalise_weights = true});
  } else {
    p.dense_layers = p.common.layers;
    p.dense_width = keys.integer("feed_forward_length", 1, kMostWidth);
  }
  SMELT_CHECK(keys.status());
  return transformer_of(file, std::move(p));
}

Result<std::shared_ptr<const Model>> read_qwen35(const GgufFile& file, const std::string& name) {
  Keys keys(file, name);
  TransformerParameters p{.network_norm = "post_attention_norm"};
  SMELT_TRY(common, read_common(keys, name));
  p.common = common;
  p.attention = read_gqa(keys, p.common, {.order = RopeOrder::Halves, .needs_norms = true, .is_gated = true});
  p.attention_every = keys.integer_or("full_attention_interval", 4, 1, 1 << 10);
  if (p.attention_every > 1) p.delta_net = read_delta_net(keys);
  if (name == "qwen35moe") {
    p.experts =
        read_experts(keys, 0, {.routing = Routing::Softmax, .normalise_weights = true, .has_shared_gate = true});
  } else {
    p.dense_layers = p.common.layers;
    p.dense_width = keys.integer("feed_forward_length", 1, kMostWidth);
  }
  SMELT_CHECK(keys.status());
  return transformer_of(file, std::move(p));
}

}  // namespace smelt
