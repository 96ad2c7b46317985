// Architecture gemma3: of every six layers five see a window and rotate by angles of their own; norms before and after
// attention and network; embeddings are scaled up. Files have the 1 that Gemma adds to the weights of norms in them.
#include <cmath>

#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

namespace {

Status read_gemma3_numbers(Keys& keys, TransformerParameters& p) {
  p.common.embedding_scale = std::sqrt(static_cast<double>(p.common.hidden));
  // No key tells the largest size, whose scale is of another width: it is known by its layers.
  if (p.common.layers == 62)
    p.attention.softmax_scale =
        std::sqrt(static_cast<double>(p.attention.heads) / static_cast<double>(p.common.hidden));
  p.global_every = keys.integer_or("attention.sliding_window_pattern", 6, 1, 1 << 10);
  p.local_attention = p.attention;
  p.local_attention.window = keys.integer("attention.sliding_window", 1, kMostContext);
  p.local_attention.rope = {.width = p.attention.rope.width,
                            .base = keys.real_or("rope.freq_base_swa", 10000, 1.001, 1e15)};
  p.local_attention.tables = " local";
  read_dense_network(keys, p);
  return {};
}

}  // namespace

Result<std::shared_ptr<const Model>> read_gemma3(const GgufFile& file, const std::string& name) {
  return read_transformer(file, name, {.order = RopeOrder::Halves, .needs_norms = true},
                          {.activation = Activation::GeluTanh, .post_norms = true}, read_gemma3_numbers);
}

}  // namespace smelt
