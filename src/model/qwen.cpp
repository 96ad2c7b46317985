// Architectures qwen2 (Qwen 2 and 2.5: biases of queries, keys and values), qwen3 (norms of each head in their place) and
// qwen3moe (its experts). Halves of a head rotate.
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

}  // namespace smelt
