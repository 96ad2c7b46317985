// Experts of a config.json.
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "safetensors/config_parts.h"

namespace smelt {
namespace {

constexpr uint32_t kSoftmax = 1, kSigmoid = 2;  // expert_gating_func

void refuse_other_than(ConfigReader& in, const char* key, const nlohmann::json& supported) {
  if (in.has(key) && in.at(key) != supported)
    in.refuse(std::string(key) + " is " + shown(in.at(key)) + "; only " + supported.dump() + " is supported");
}

}  // namespace

void read_softmax_experts(ConfigPass& pass) {
  ConfigReader& in = pass.in;
  refuse_other_than(in, "decoder_sparse_step", 1);
  refuse_other_than(in, "mlp_only_layers", nlohmann::json::array());
  pass.out.number("expert_count", in.whole("num_experts"));
  pass.out.number("expert_used_count", in.whole("num_experts_per_tok"));
  pass.out.number("expert_feed_forward_length", in.whole("moe_intermediate_size"));
  if (in.has("shared_expert_intermediate_size"))
    pass.out.number("expert_shared_feed_forward_length", in.whole("shared_expert_intermediate_size"));
  pass.out.flag("expert_weights_norm", in.flag_or("norm_topk_prob", false));
}

void read_routed_experts(ConfigPass& pass) {
  ConfigReader& in = pass.in;
  refuse_other_than(in, "moe_layer_freq", 1);
  const uint32_t groups = in.whole_or("n_group", 1);
  // DeepSeek V2's groups are chosen by their best expert, later ones by their two best.
  if (groups > 1) refuse_other_than(in, "topk_method", "noaux_tc");
  const bool is_v2 = in.text_or("topk_method", "noaux_tc") != "noaux_tc";
  const std::string scores = in.text_or("scoring_func", is_v2 ? "softmax" : "sigmoid");
  if (scores != "sigmoid" && scores != "softmax") in.refuse("scoring_func " + printable(scores) + " is not supported");
  pass.out.number("feed_forward_length", in.whole("intermediate_size"));
  pass.out.number("leading_dense_block_count", in.whole_or("first_k_dense_replace", 0));
  pass.out.number("expert_count", in.whole("n_routed_experts"));
  pass.out.number("expert_used_count", in.whole("num_experts_per_tok"));
  pass.out.number("expert_feed_forward_length", in.whole("moe_intermediate_size"));
  pass.out.number("expert_shared_count", in.whole_or("n_shared_experts", 0));
  pass.out.number("expert_gating_func", scores == "sigmoid" ? kSigmoid : kSoftmax);
  pass.out.number("expert_group_count", groups);
  pass.out.number("expert_group_used_count", in.whole_or("topk_group", 1));
  pass.out.flag("expert_weights_norm", in.flag_or("norm_topk_prob", scores == "sigmoid"));
  pass.out.real("expert_weights_scale", in.real_or("routed_scaling_factor", 1));
}

void read_local_experts(ConfigPass& pass) {
  ConfigReader& in = pass.in;
  const char* used = in.has("experts_per_token") ? "experts_per_token" : "num_experts_per_tok";
  pass.out.number("expert_count", in.whole("num_local_experts"));
  pass.out.number("expert_used_count", in.whole(used));
  pass.out.number("expert_feed_forward_length", in.whole("intermediate_size"));
}

}  // namespace smelt
