// The feed-forward part of a block: one gated network, or experts that a router chooses beside a shared one.
#pragma once

#include "model/block.h"

namespace smelt {

enum class Routing { Softmax, Sigmoid };

// What a network makes of gate and up: activation(gate) * up, or gpt-oss' own, see opened().
enum class Activation { Silu, GeluTanh, ClampedSwiglu };

struct ExpertParameters {
  int64_t count = 0;  // 0: no layer has experts
  int64_t used = 0;
  int64_t width = 0;
  int64_t shared_width = 0;      // inner width of the shared experts together; 0: none
  bool has_shared_gate = false;  // what these give is multiplied with a sigmoid of x w
  Routing routing = Routing::Softmax;
  int64_t groups = 1;              // of neighbouring experts: only the best `groups_used` take part in the choice,
  int64_t groups_used = 1;         // by the sum of their two best scores
  bool selection_bias = false;     // exp_probs_b is added before the choice, not to the weights
  bool normalise_weights = false;  // of the chosen experts, to a sum of 1
  double weights_scale = 1;
  bool router_bias = false;  // added to the logits of the router
  bool has_bias = false;     // of each expert: of gate, up and down
  Activation activation = Activation::Silu;
};

// What files need not say.
struct ExpertTraits {
  Routing routing = Routing::Softmax;  // a selection bias means Sigmoid
  bool normalise_weights = false;      // after a softmax; always after sigmoids
  bool needs_bias = false;             // of router and experts; others have none
  bool has_shared_gate = false;        // and one shared expert, unless a key gives its width
  Activation activation = Activation::Silu;
  const char* width_key = "expert_feed_forward_length";
};

// `first_layer`: one that has experts.
ExpertParameters read_experts(Keys& keys, int64_t first_layer, const ExpertTraits& traits);
void write_experts(KeyWriter& out, const ExpertParameters& experts);

// ffn_gate, ffn_up and ffn_down with a suffix such as ".weight".
std::vector<TensorShape> network_tensors(const std::string& suffix, int64_t hidden, int64_t width);
std::vector<TensorShape> expert_tensors(const ExpertParameters& experts, int64_t hidden);

// w_down (activation(w_gate x) * w_up x). x [T, D] -> [T, D]
Tensor gated_network(Block& b, const Activations& x, const std::string& suffix = ".weight",
                     Activation activation = Activation::Silu);

// The same where the rows of gate and up, `width` each, are one matrix: ffn_up.
Tensor fused_network(Block& b, const Activations& x, int64_t width, Activation activation);

// x [T, D] -> [T, D]
Tensor expert_network(Block& b, const ExpertParameters& experts, Tensor x);

}  // namespace smelt
