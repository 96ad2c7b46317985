#include "safetensors/family.h"

namespace smelt {
namespace {

using enum ConfigPart;

constexpr TensorNamePair kNetworkNorm[] = {{"post_attention_layernorm", "post_attention_norm"}};
constexpr TensorNamePair kGemmaNames[] = {{"post_attention_layernorm", "post_attention_norm"},
                                          {"pre_feedforward_layernorm", "ffn_norm"},
                                          {"post_feedforward_layernorm", "post_ffw_norm"}};
// GLM-4 has four norms like Gemma, by other names.
constexpr TensorNamePair kGlm4Names[] = {{"post_self_attn_layernorm", "post_attention_norm"},
                                         {"post_attention_layernorm", "ffn_norm"},
                                         {"post_mlp_layernorm", "post_ffw_norm"}};
constexpr TensorNamePair kOlmoNames[] = {{"post_attention_layernorm", "post_attention_norm"},
                                         {"post_feedforward_layernorm", "post_ffw_norm"}};

// What the class of the model has where a file says nothing.
constexpr std::string_view kGemmaDefaults = R"({"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "query_pre_attn_scalar": 256,
    "rope_local_base_freq": 10000, "sliding_window_pattern": 6})";
constexpr std::string_view kGptOssDefaults = R"({"num_experts_per_tok": 4, "rope_theta": 150000})";
constexpr std::string_view kQwen35Defaults = R"({"head_dim": 256, "partial_rotary_factor": 0.25,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "norm_topk_prob": true})";
constexpr std::string_view kQwen3NextDefaults = R"({"head_dim": 256, "partial_rotary_factor": 0.25,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "intermediate_size": 5632, "norm_topk_prob": true})";

}  // namespace

const std::vector<HubFamily>& hub_families() {
  static const std::vector<HubFamily> list = {
      {.model_type = "llama",
       .architecture = "llama",
       .parts = {Heads, Network, NoWindows},
       .swaps_pairs = true,
       .has_windows_by_default = true},
      {.model_type = "mistral",
       .architecture = "llama",
       .parts = {Heads, Network, NoWindows},
       .swaps_pairs = true,
       .has_windows_by_default = true},
      {.model_type = "qwen2", .architecture = "qwen2", .parts = {Heads, Network, NoWindows}},
      {.model_type = "qwen3", .architecture = "qwen3", .parts = {Heads, Network, NoWindows}},
      {.model_type = "qwen3_moe", .architecture = "qwen3moe", .parts = {Heads, SoftmaxExperts, NoWindows}},
      {.model_type = "glm4_moe", .architecture = "glm4moe", .parts = {Heads, RoutedExperts}, .names = kNetworkNorm},
      {.model_type = "glm4_moe_lite", .architecture = "deepseek2", .parts = {Latents, RoutedExperts}},
      {.model_type = "deepseek_v2", .architecture = "deepseek2", .parts = {Latents, RoutedExperts}},
      {.model_type = "deepseek_v3", .architecture = "deepseek2", .parts = {Latents, RoutedExperts}},
      {.model_type = "gemma3_text",
       .architecture = "gemma3",
       .parts = {Heads, Network, Windows},
       .names = kGemmaNames,
       .adds_one = true,
       .defaults = kGemmaDefaults},
      {.model_type = "glm4", .architecture = "glm4", .parts = {Heads, Network}, .names = kGlm4Names},
      {.model_type = "granite", .architecture = "granite", .parts = {Heads, Network, Multipliers}, .swaps_pairs = true},
      {.model_type = "granitemoe",
       .architecture = "granitemoe",
       .parts = {Heads, Network, LocalExperts, Multipliers},
       .swaps_pairs = true},
      {.model_type = "ministral3",
       .architecture = "mistral3",
       .parts = {Heads, Network, Temperature, NoWindows},
       .swaps_pairs = true,
       .has_windows_by_default = true},
      {.model_type = "olmo2", .architecture = "olmo2", .parts = {Heads, Network}, .names = kOlmoNames},
      {.model_type = "olmo3", .architecture = "olmo2", .parts = {Heads, Network, Windows}, .names = kOlmoNames},
      {.model_type = "phi3", .architecture = "phi3", .parts = {Heads, Network, OwnWindow}, .has_long_factors = true},
      {.model_type = "qwen3_next",
       .architecture = "qwen3next",
       .parts = {Heads, Network, SoftmaxExperts, DeltaNets},
       .names = kNetworkNorm,
       .adds_one = true,
       .defaults = kQwen3NextDefaults},
      {.model_type = "qwen3_5_text",
       .architecture = "qwen35",
       .parts = {Heads, Network, DeltaNets},
       .names = kNetworkNorm,
       .adds_one = true,
       .has_neighbours = true,
       .defaults = kQwen35Defaults},
      {.model_type = "qwen3_5_moe_text",
       .architecture = "qwen35moe",
       .parts = {Heads, SoftmaxExperts, DeltaNets},
       .names = kNetworkNorm,
       .adds_one = true,
       .has_neighbours = true,
       .defaults = kQwen35Defaults},
      {.model_type = "gpt_oss",
       .architecture = "gpt-oss",
       .parts = {Heads, LocalExperts, Windows},
       .names = kNetworkNorm,
       .defaults = kGptOssDefaults},
  };
  return list;
}

}  // namespace smelt
