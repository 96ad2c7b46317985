// Architecture llama: Llama 2 and 3, Mistral, SmolLM, and Mixtral with its experts. Pairs of neighbours rotate.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

Result<std::shared_ptr<const Model>> read_llama(const GgufFile& file, const std::string& name) {
  Keys keys(file, name);
  TransformerParameters p;
  SMELT_TRY(common, read_common(keys, name));
  p.common = common;
  p.attention = read_gqa(keys, p.common, {.order = RopeOrder::Pairs});
  // Mixtral. Files give the width of an expert as that of the one network that other models have.
  if (keys.integer_or("expert_count", 0, 0, 1 << 14)) {
    const char* width = keys.has("expert_feed_forward_length") ? "expert_feed_forward_length" : "feed_forward_length";
    p.experts = read_experts(keys, 0, {.routing = Routing::Softmax, .normalise_weights = true, .width_key = width});
  } else {
    p.dense_layers = p.common.layers;
    p.dense_width = keys.integer("feed_forward_length", 1, kMostWidth);
  }
  SMELT_CHECK(keys.status());
  SMELT_TRY(divisors, read_divisors(file, "rope_freqs.weight", p.attention.rope.width / 2));
  p.attention.rope.divisors = std::move(divisors);
  return transformer_of(file, std::move(p));
}

}  // namespace smelt
