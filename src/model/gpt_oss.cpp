// Architecture gpt-oss: every other layer has a window; heads have sinks; everything that multiplies has a bias; the
// experts clamp what they open. Their weights are a softmax over the logits of the chosen alone, which is that over all
// of them made to sum to 1.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

Result<std::shared_ptr<const Model>> read_gpt_oss(const GgufFile& file, const std::string& name) {
  const GqaTraits attention{.order = RopeOrder::Halves, .needs_bias = true, .needs_sinks = true};
  const ExpertTraits experts{.routing = Routing::Softmax,
                             .normalise_weights = true,
                             .needs_bias = true,
                             .activation = Activation::ClampedSwiglu};
  return read_transformer(file, name, attention, {.network_norm = "post_attention_norm"},
                          [&](Keys& keys, TransformerParameters& p) {
                            p.global_every = keys.integer_or("attention.sliding_window_pattern", 2, 1, 1 << 10);
                            p.local_attention = p.attention;
                            p.local_attention.window = keys.integer("attention.sliding_window", 1, kMostContext);
                            p.experts = read_experts(keys, 0, experts);
                            return Status();
                          });
}

}  // namespace smelt
