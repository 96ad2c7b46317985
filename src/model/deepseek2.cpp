#include "model/deepseek2.h"

#include "model/architectures.h"

namespace smelt {
namespace {

// Files of the first days of GLM-4.7-Flash lack the key of the gating function, and softmax was never right for them:
// they have a selection bias, or the shapes of that model.
Routing routing_of_old_file(const Deepseek2Parameters& p) {
  const bool glm = (p.common.layers == 47 || p.common.layers == 48) && p.common.hidden == 2048 &&
                   p.attention.q_lora == 768 && p.attention.kv_lora == 512;
  return glm ? Routing::Sigmoid : Routing::Softmax;
}

void read_layers(Keys& keys, Deepseek2Parameters& p) {
  const int64_t layers = p.common.layers;
  const bool has_experts = keys.integer_or("expert_count", 0, 0, 1 << 14) > 0;
  p.dense_layers = keys.integer_or("leading_dense_block_count", has_experts ? 0 : layers, 0, layers);
  if (p.dense_layers > 0) p.dense_width = keys.integer("feed_forward_length", 1, kMostWidth);
  if (p.dense_layers == layers) return;
  if (has_experts)
    p.experts = read_experts(keys, p.dense_layers, {.routing = routing_of_old_file(p)});
  else
    keys.refuse("expert_count", "0 or missing, but layers from " + std::to_string(p.dense_layers) + " on have experts");
}

}  // namespace

Result<Deepseek2Parameters> read_deepseek2(const GgufFile& file, const std::string& architecture) {
  Keys keys(file, architecture);
  Deepseek2Parameters p;
  SMELT_TRY(common, read_common(keys, architecture));
  p.common = common;
  p.attention = read_mla(keys, p.common.context, architecture != "deepseek2");
  read_layers(keys, p);
  SMELT_CHECK(keys.status());
  SMELT_CHECK(check_tensors(file, Deepseek2(p)));
  return p;
}

Result<std::shared_ptr<const Model>> read_deepseek2_model(const GgufFile& file, const std::string& name) {
  SMELT_TRY(parameters, read_deepseek2(file, name));
  return std::shared_ptr<const Model>(std::make_shared<Deepseek2>(std::move(parameters)));
}

void Deepseek2::write_keys(KeyWriter& out) const {
  write_common(out, p_.common);
  write_mla(out, p_.attention);
  out.number("leading_dense_block_count", p_.dense_layers);
  if (p_.dense_layers) out.number("feed_forward_length", p_.dense_width);
  if (p_.dense_layers < p_.common.layers) write_experts(out, p_.experts);
}

std::vector<TensorShape> Deepseek2::layer_tensors(int64_t layer) const {
  const int64_t hidden = p_.common.hidden;
  std::vector<TensorShape> list = {{"attn_norm.weight", {}, hidden}};
  const auto add = [&](std::vector<TensorShape> part) { list.insert(list.end(), part.begin(), part.end()); };
  add(mla_tensors(p_.attention, hidden));
  add({{"ffn_norm.weight", {}, hidden}});
  add(has_experts(layer) ? expert_tensors(p_.experts, hidden) : network_tensors(".weight", hidden, p_.dense_width));
  return list;
}

Segment Deepseek2::block(const GgufFile& file, const ModelShape& shape, int64_t layer) const {
  Slots slots;
  const Weights weights(file, layer_prefix(layer), layer_tensors(layer), slots, shape);
  Block b{p_.common, shape, slots, weights};
  auto norm = [&](Tensor x, const char* name) { return rms_norm(x, weights(name), p_.common.epsilon); };

  const Tensor x = slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, p_.common.hidden}, "hidden");  // [T, D]
  const Attended attended = latent_attention(b, p_.attention, norm(x, "attn_norm.weight"));
  const Tensor h = x + attended.out;
  const Tensor normed = norm(h, "ffn_norm.weight");
  const Tensor y =
      h + (has_experts(layer) ? expert_network(b, p_.experts, normed) : gated_network(b, b.activations(normed)));
  Refs roots;
  if (!shape.only_cache) roots.push_back(slots.output(Bound::HiddenOut, y));
  roots.insert(roots.end(), attended.written_cache.begin(), attended.written_cache.end());
  return std::move(slots).finish(std::move(roots));
}

}  // namespace smelt
