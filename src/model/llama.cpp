#include "model/llama.h"

#include <cmath>
#include <cstring>

#include "model/architectures.h"

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

Result<LlamaParameters> read_llama(const GgufFile& file, const std::string& architecture) {
  Keys keys(file, architecture);
  LlamaParameters p;
  SMELT_TRY(common, read_common(keys, architecture));
  p.common = common;
  p.attention = read_gqa(keys, p.common.hidden, p.common.context);
  p.width = keys.integer("feed_forward_length", 1, kMostWidth);
  if (const int64_t experts = keys.integer_or("expert_count", 0, 0, 1 << 14))
    keys.refuse("expert_count",
                std::to_string(experts) + " experts; models of this architecture are supported with none");
  SMELT_CHECK(keys.status());
  SMELT_TRY(divisors, read_divisors(file, p.attention.rope.width / 2));
  p.attention.rope.divisors = std::move(divisors);
  SMELT_CHECK(check_tensors(file, Llama(p)));
  return p;
}

Result<std::shared_ptr<const Model>> read_llama_model(const GgufFile& file, const std::string& name) {
  SMELT_TRY(parameters, read_llama(file, name));
  return std::shared_ptr<const Model>(std::make_shared<Llama>(std::move(parameters)));
}

void Llama::write_keys(KeyWriter& out) const {
  write_common(out, p_.common);
  write_gqa(out, p_.attention);
  out.number("feed_forward_length", p_.width);
}

std::vector<TensorShape> Llama::layer_tensors(int64_t) const {
  const int64_t hidden = p_.common.hidden;
  std::vector<TensorShape> list = {{"attn_norm.weight", {}, hidden}};
  const auto add = [&](std::vector<TensorShape> part) { list.insert(list.end(), part.begin(), part.end()); };
  add(gqa_tensors(p_.attention, hidden));
  add({{"ffn_norm.weight", {}, hidden}});
  add(network_tensors(".weight", hidden, p_.width));
  return list;
}

Segment Llama::block(const GgufFile& file, const ModelShape& shape, int64_t layer) const {
  Slots slots;
  const Weights weights(file, layer_prefix(layer), layer_tensors(layer), slots, shape);
  Block b{p_.common, shape, slots, weights};
  auto norm = [&](Tensor x, const char* name) { return rms_norm(x, weights(name), p_.common.epsilon); };

  const Tensor x = slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, p_.common.hidden}, "hidden");  // [T, D]
  const Attended attended = grouped_query_attention(b, p_.attention, norm(x, "attn_norm.weight"));
  const Tensor h = x + attended.out;
  const Tensor y = h + gated_network(b, b.activations(norm(h, "ffn_norm.weight")));
  Refs roots{slots.output(Bound::HiddenOut, y)};
  roots.insert(roots.end(), attended.written_cache.begin(), attended.written_cache.end());
  return std::move(slots).finish(std::move(roots));
}

}  // namespace smelt
