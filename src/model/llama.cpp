// Architecture llama: Llama 2 and 3, Mistral, SmolLM, and Mixtral with its experts. Pairs of neighbours rotate.
#include <cmath>
#include <cstring>

#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {
namespace {

// Llama 3.1 and later stretch low frequencies by divisors that the converter has computed.
Result<std::vector<double>> read_divisors(const GgufFile& file, int64_t pairs) {
  const std::string name = "rope_freqs.weight";
  const GgufTensor* tensor = file.find(name);
  if (!tensor) return std::vector<double>();
  SMELT_CHECK(check_tensors(file, "", {{name, {}, pairs}}));
  if (tensor->type != GgufType::F32)
    return model_error(name, std::string(name_of(tensor->type)) + " is not supported; F32 is");
  std::vector<double> divisors;
  for (int64_t i = 0; i < pairs; ++i) {
    float value;
    std::memcpy(&value, tensor->data + static_cast<size_t>(i) * sizeof value, sizeof value);
    if (!std::isfinite(value) || value <= 0)
      return model_error(name, "value " + std::to_string(i) + " is " + std::to_string(value) + ", not above 0");
    divisors.push_back(value);
  }
  return divisors;
}

}  // namespace

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
  SMELT_TRY(divisors, read_divisors(file, p.attention.rope.width / 2));
  p.attention.rope.divisors = std::move(divisors);
  return transformer_of(file, std::move(p));
}

}  // namespace smelt
