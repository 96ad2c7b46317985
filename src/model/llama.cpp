// Architectures llama (Llama 2 and 3, Mistral, SmolLM, and Mixtral with its experts) and mistral3 (Ministral 3), whose
// queries grow with their position. Pairs of neighbours rotate.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

namespace {

Status read_llama_numbers(Keys& keys, TransformerParameters& p) {
  read_network_or_experts(keys, p);
  SMELT_TRY(divisors, read_divisors(keys.file(), "rope_freqs.weight", p.attention.rope.width / 2));
  p.attention.rope.divisors = std::move(divisors);
  return {};
}

// YaRN of these models stretches frequencies and nothing else: neither scores nor what was rotated becomes greater.
Status read_mistral3_numbers(Keys& keys, TransformerParameters& p) {
  RopeParameters& rope = p.attention.rope;
  if (!keys.has("attention.scale")) p.attention.softmax_scale /= rope.attention_scale();
  rope.attention_factor /= rope.magnitude();
  p.attention.temperature = keys.real_or("attention.temperature_scale", 0, 0, 1e3);
  p.attention.temperature_span =
      keys.integer_or("rope.scaling.original_context_length", p.common.context, 1, kMostContext);
  return read_llama_numbers(keys, p);
}

}  // namespace

Result<std::shared_ptr<const Model>> read_llama(const GgufFile& file, const std::string& name) {
  return read_transformer(file, name, {.order = RopeOrder::Pairs}, {}, read_llama_numbers);
}

Result<std::shared_ptr<const Model>> read_mistral3(const GgufFile& file, const std::string& name) {
  return read_transformer(file, name, {.order = RopeOrder::Pairs}, {}, read_mistral3_numbers);
}

}  // namespace smelt
