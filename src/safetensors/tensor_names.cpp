#include "safetensors/tensor_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace smelt {
namespace {

constexpr TensorNamePair kWhole[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

// Of a layer, without ".weight" or ".bias"; * is the number of an expert.
constexpr TensorNamePair kOfLayer[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.*.up_proj", "ffn_up_exps"},
    {"mlp.experts.*.down_proj", "ffn_down_exps"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},
    {"block_sparse_moe.output_linear", "ffn_down_exps"},
    {"linear_attn.in_proj_qkvz", "ssm_in"},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.in_proj_qkv", "attn_qkv"},
    {"linear_attn.in_proj_z", "attn_gate"},
    {"linear_attn.in_proj_b", "ssm_beta"},
    {"linear_attn.in_proj_a", "ssm_alpha"},
    {"linear_attn.conv1d", "ssm_conv1d"},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out"},
    {"enorm", "nextn.enorm"},
    {"hnorm", "nextn.hnorm"},
    {"eh_proj", "nextn.eh_proj"},
    {"embed_tokens", "nextn.embed_tokens"},
    {"shared_head.norm", "nextn.shared_head_norm"},
    {"shared_head.head", "nextn.shared_head_head"},
};

// Those that have another ending, and those that are a piece of a tensor.
struct WholeName {
  std::string_view from, to;
  std::optional<uint32_t> piece = {};
};
constexpr WholeName kWholeOfLayer[] = {
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.A_log", "ssm_a"},
    {"mlp.experts.gate_up_proj_blocks", "ffn_gate_up_exps.weight", kBlocksPiece},
    {"mlp.experts.gate_up_proj_scales", "ffn_gate_up_exps.weight", kScalesPiece},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_up_exps.bias"},
    {"mlp.experts.down_proj_blocks", "ffn_down_exps.weight", kBlocksPiece},
    {"mlp.experts.down_proj_scales", "ffn_down_exps.weight", kScalesPiece},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
};

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// "mlp.experts.12.up_proj" as "mlp.experts.*.up_proj", and 12.
std::optional<uint32_t> take_expert(std::string& part) {
  constexpr std::string_view kExperts = "mlp.experts.";
  if (!part.starts_with(kExperts)) return std::nullopt;
  const size_t begin = kExperts.size(), end = std::min(part.find('.', begin), part.size());
  if (!is_number(std::string_view(part).substr(begin, end - begin))) return std::nullopt;
  uint32_t number = 0;
  std::from_chars(part.data() + begin, part.data() + end, number);
  part.replace(begin, end - begin, "*");
  return number;
}

std::optional<NewTensorName> name_in_layer(std::string rest, const HubFamily& family) {
  for (const WholeName& whole : kWholeOfLayer)
    if (rest == whole.from) return NewTensorName{std::string(whole.to), whole.piece};
  const size_t last = rest.rfind('.');
  if (last == std::string::npos) return std::nullopt;
  const std::string kind = rest.substr(last);
  if (kind != ".weight" && kind != ".bias") return std::nullopt;
  std::string part = rest.substr(0, last);
  const auto expert = take_expert(part);
  for (const std::span<const TensorNamePair> list : {family.names, std::span<const TensorNamePair>(kOfLayer)})
    for (const auto& [from, to] : list)
      if (part == from) return NewTensorName{std::string(to) + kind, expert};
  return std::nullopt;
}

// Where a model also sees, the part that writes has a name of its own: it is left out.
std::string without_part(std::string name) {
  constexpr std::string_view kPart = "language_model.";
  if (name.starts_with(kPart)) return name.substr(kPart.size());
  constexpr std::string_view kInside = "model.language_model.";
  return name.starts_with(kInside) ? "model." + name.substr(kInside.size()) : name;
}

}  // namespace

std::optional<NewTensorName> gguf_name(const std::string& full_name, const HubFamily& family) {
  const std::string name = without_part(full_name);
  for (const auto& [from, to] : kWhole)
    if (name == from) return NewTensorName{std::string(to)};
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return std::nullopt;
  const size_t number = kLayers.size(), dot = name.find('.', number);
  if (dot == std::string::npos || !is_number(std::string_view(name).substr(number, dot - number))) return std::nullopt;
  auto found = name_in_layer(name.substr(dot + 1), family);
  if (found) found->name.insert(0, "blk." + name.substr(number, dot - number) + ".");
  return found;
}

bool is_left_out(const std::string& name) {
  constexpr std::array<std::string_view, 2> kParts = {"vision_tower.", "multi_modal_projector."};
  return name.ends_with("rotary_emb.inv_freq") || name.starts_with("mtp.") ||
         std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
           return name.starts_with(part) || name.starts_with("model." + std::string(part));
         });
}

}  // namespace smelt
