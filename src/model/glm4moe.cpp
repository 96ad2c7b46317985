// Architecture glm4moe (GLM-4.5, 4.5-Air and 4.6): a part of each head rotates, some sizes have norms of heads; after
// the first layers experts with a shared one.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

Result<std::shared_ptr<const Model>> read_glm4moe(const GgufFile& file, const std::string& name) {
  const ExpertTraits experts{.routing = Routing::Sigmoid, .normalise_weights = true};
  return read_transformer(file, name, {.order = RopeOrder::Halves}, {.network_norm = "post_attention_norm"},
                          [&](Keys& keys, TransformerParameters& p) {
                            p.dense_layers = keys.integer_or("leading_dense_block_count", 0, 0, p.common.layers);
                            if (p.dense_layers > 0) p.dense_width = keys.integer("feed_forward_length", 1, kMostWidth);
                            if (p.dense_layers < p.common.layers)
                              p.experts = read_experts(keys, p.dense_layers, experts);
                            return Status();
                          });
}

}  // namespace smelt
