#include "safetensors/tensor_names.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace smelt {
namespace {

constexpr std::pair<std::string_view, std::string_view> kWhole[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

// Of a layer, without ".weight" or ".bias".
constexpr std::pair<std::string_view, std::string_view> kOfLayer[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

}  // namespace

std::optional<std::string> gguf_name(const std::string& name) {
  for (const auto& [from, to] : kWhole)
    if (name == from) return std::string(to);
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return std::nullopt;
  const size_t number = kLayers.size(), dot = name.find('.', number), last = name.rfind('.');
  if (dot == std::string::npos || dot == number || last <= dot) return std::nullopt;
  const std::string layer = name.substr(number, dot - number), kind = name.substr(last);
  if (!std::all_of(layer.begin(), layer.end(), [](unsigned char c) { return std::isdigit(c); })) return std::nullopt;
  if (kind != ".weight" && kind != ".bias") return std::nullopt;
  const std::string part = name.substr(dot + 1, last - dot - 1);
  for (const auto& [from, to] : kOfLayer)
    if (part == from) return "blk." + layer + "." + std::string(to) + kind;
  return std::nullopt;
}

}  // namespace smelt
