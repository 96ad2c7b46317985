#include "model/transformer.h"

namespace smelt {

Result<std::shared_ptr<const Model>> read_transformer(const GgufFile& file, const std::string& name,
                                                      const GqaTraits& attention, TransformerParameters traits,
                                                      const ReadMore& more) {
  Keys keys(file, name);
  SMELT_TRY(common, read_common(keys, name));
  traits.common = common;
  traits.attention = read_gqa(keys, traits.common, attention);
  const Status others = more(keys, traits);
  SMELT_CHECK(keys.status());
  SMELT_CHECK(others);
  auto model = std::make_shared<const Transformer>(std::move(traits));
  SMELT_CHECK(check_tensors(file, *model));
  return std::shared_ptr<const Model>(std::move(model));
}

void read_dense_network(Keys& keys, TransformerParameters& p) {
  p.dense_layers = p.common.layers;
  p.dense_width = keys.integer("feed_forward_length", 1, p.is_fused ? kMostWidth / 2 : kMostWidth);
}

void read_network_or_experts(Keys& keys, TransformerParameters& p) {
  if (keys.integer_or("expert_count", 0, 0, 1 << 14) == 0) return read_dense_network(keys, p);
  const char* width = keys.has("expert_feed_forward_length") ? "expert_feed_forward_length" : "feed_forward_length";
  p.experts = read_experts(keys, 0, {.routing = Routing::Softmax, .normalise_weights = true, .width_key = width});
}

void Transformer::write_keys(KeyWriter& out) const {
  write_common(out, p_.common);
  write_gqa(out, p_.attention);
  if (p_.global_every > 1) {
    out.number("attention.sliding_window", p_.local_attention.window);
    out.number("attention.sliding_window_pattern", p_.global_every);
    if (has_local_tables()) out.real("rope.freq_base_swa", p_.local_attention.rope.base);
  } else if (p_.attention.window) {
    out.number("attention.sliding_window", p_.attention.window);
  }
  if (p_.residual_scale != 1) out.real("residual_scale", p_.residual_scale);
  if (p_.attention_every > 1) {
    out.number("full_attention_interval", p_.attention_every);
    write_delta_net(out, p_.delta_net);
  }
  if (p_.dense_layers) out.number("feed_forward_length", p_.dense_width);
  if (p_.dense_layers == p_.common.layers) return;
  out.number("leading_dense_block_count", p_.dense_layers);
  write_experts(out, p_.experts);
}

std::vector<PositionTable> Transformer::position_tables() const {
  std::vector<PositionTable> list = gqa_tables(p_.attention);
  if (has_local_tables())
    for (PositionTable& table : gqa_tables(p_.local_attention)) list.push_back(std::move(table));
  return list;
}

std::vector<CachePart> Transformer::cache_parts(DType type, int64_t layer) const {
  return has_attention(layer) ? gqa_cache(p_.attention, type) : std::vector<CachePart>();
}

std::vector<StatePart> Transformer::state_parts(int64_t layer) const {
  return has_attention(layer) ? std::vector<StatePart>() : delta_net_states(p_.delta_net);
}

std::vector<TensorShape> Transformer::layer_tensors(int64_t layer) const {
  const int64_t hidden = p_.common.hidden;
  std::vector<TensorShape> list;
  const auto add = [&](std::vector<TensorShape> part) { list.insert(list.end(), part.begin(), part.end()); };
  if (p_.pre_norms) add({{"attn_norm.weight", {}, hidden}});
  add(has_attention(layer) ? gqa_tensors(p_.attention, hidden) : delta_net_tensors(p_.delta_net, hidden));
  if (p_.post_norms) add({{"post_attention_norm.weight", {}, hidden}});
  if (p_.pre_norms) add({{p_.network_norm + ".weight", {}, hidden}});
  if (has_experts(layer))
    add(expert_tensors(p_.experts, hidden));
  else if (p_.is_fused)
    add({{"ffn_up.weight", {2 * p_.dense_width}, hidden}, {"ffn_down.weight", {hidden}, p_.dense_width}});
  else
    add(network_tensors(".weight", hidden, p_.dense_width));
  if (p_.post_norms) add({{"post_ffw_norm.weight", {}, hidden}});
  return list;
}

Segment Transformer::block(const GgufFile& file, const ModelShape& shape, int64_t layer) const {
  Slots slots;
  const Weights weights(file, layer_prefix(layer), layer_tensors(layer), slots, shape);
  Block b{p_.common, shape, slots, weights};
  auto norm = [&](Tensor x, const std::string& name) {
    return rms_norm(x, weights(name + ".weight"), p_.common.epsilon);
  };

  const Tensor x = slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, p_.common.hidden}, "hidden");  // [T, D]
  const auto before = [&](Tensor part, const std::string& name) { return p_.pre_norms ? norm(part, name) : part; };
  const auto after = [&](Tensor part, const char* name) {
    const Tensor y = p_.post_norms ? norm(part, name) : part;
    return p_.residual_scale == 1 ? y : y * p_.residual_scale;
  };
  const Tensor in = before(x, "attn_norm");
  const Attended attended =
      has_attention(layer) ? grouped_query_attention(b, attention(layer), in) : delta_net(b, p_.delta_net, in);
  const Tensor h = x + after(attended.out, "post_attention_norm");
  const Tensor normed = before(h, p_.network_norm);
  const auto dense = [&] {
    const Activations values = b.activations(normed);
    return p_.is_fused ? fused_network(b, values, p_.dense_width, p_.activation)
                       : gated_network(b, values, ".weight", p_.activation);
  };
  const Tensor network = has_experts(layer) ? expert_network(b, p_.experts, normed) : dense();
  const Tensor y = h + after(network, "post_ffw_norm");
  Refs roots;
  if (!shape.only_cache) roots.push_back(slots.output(Bound::HiddenOut, y));
  roots.insert(roots.end(), attended.written_cache.begin(), attended.written_cache.end());
  return std::move(slots).finish(std::move(roots));
}

}  // namespace smelt
