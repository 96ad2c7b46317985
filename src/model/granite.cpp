// Architectures granite and granitemoe (Granite 3 and 4): llama with a scale of its own for embeddings, for scores, for
// what attention and network add, and for logits. Some sizes do not rotate.
#include <limits>

#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

namespace {

Status read_granite_numbers(Keys& keys, TransformerParameters& p) {
  p.common.embedding_scale = keys.real_or("embedding_scale", 1, 1e-6, 1e6);
  p.common.logit_scale = keys.real("logit_scale", 1e-6, 1e6);
  p.residual_scale = keys.real_or("residual_scale", 1, 1e-6, 1e6);
  // Frequencies of zero: all positions have the same angle.
  if (!keys.boolean_or("rope.scaling.finetuned", true))
    p.attention.rope.divisors.assign(static_cast<size_t>(p.attention.rope.width / 2),
                                     std::numeric_limits<double>::infinity());
  read_network_or_experts(keys, p);
  return {};
}

}  // namespace

Result<std::shared_ptr<const Model>> read_granite(const GgufFile& file, const std::string& name) {
  return read_transformer(file, name, {.order = RopeOrder::Pairs}, {}, read_granite_numbers);
}

}  // namespace smelt
