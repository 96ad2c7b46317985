// Architecture glm4 (GLM-4-0414, GLM-Z1): pairs of a part of each head rotate; gate and up are one matrix; what attention
// and network give is normalised before it is added.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

Result<std::shared_ptr<const Model>> read_glm4(const GgufFile& file, const std::string& name) {
  Keys keys(file, name);
  TransformerParameters p{.is_fused = true, .post_norms = true};
  SMELT_TRY(common, read_common(keys, name));
  p.common = common;
  p.attention = read_gqa(keys, p.common, {.order = RopeOrder::Pairs});
  p.dense_layers = p.common.layers;
  p.dense_width = keys.integer("feed_forward_length", 1, kMostWidth / 2);
  SMELT_CHECK(keys.status());
  return transformer_of(file, std::move(p));
}

}  // namespace smelt
