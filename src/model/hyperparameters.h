// Hyperparameters: the numbers of a model, read from the metadata and held to its tensors.
//
// After read_hyperparameters() every number is in a sane range and every tensor that the graph of
// model/deepseek2.h binds is there, with the right shape and a type that we compute with: nothing
// behind this file checks the model again. Errors name the key or tensor and its value:  [model]
// blk.3.attn_q_b.weight: shape {768, 5000} ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace smelt {

enum class Routing { Softmax, Sigmoid };

// Rotary positions. YaRN when factor > 1: low frequencies are divided by factor, high ones are
// kept, a ramp in between.
struct RopeParameters {
  double base = 10000;
  double factor = 1;
  int64_t original_context = 0;
  double beta_fast = 32,
         beta_slow = 1;       // turns within original_context where the ramp begins and ends
  double log_multiplier = 0;  // the softmax scale grows by (1 + log_multiplier * ln(factor))^2
};

struct Hyperparameters {
  std::string architecture;
  int64_t layers = 0;        // without the layers of the multi-token-prediction head
  int64_t dense_layers = 0;  // the first ones have one feed-forward network, the others experts
  int64_t vocabulary = 0;
  int64_t context = 0;  // positions that the model was made for
  int64_t hidden = 0;
  double epsilon = 0;  // of all RMS norms

  int64_t heads = 0;
  int64_t q_lora = 0;       // 0: queries come from one matrix, attn_q
  int64_t kv_lora = 0;      // width of the latent
  int64_t nope = 0;         // of a head's query and key: without position
  int64_t rope = 0;         // and rotated
  int64_t v_head = 0;       // width of a head's value
  bool fused_kv_b = false;  // attn_kv_b in place of attn_k_b and attn_v_b (older files)
  RopeParameters rotary;
  double softmax_scale = 0;  // of attention scores, YaRN's factor included

  int64_t dense_width = 0;  // inner width of the dense layers
  int64_t experts = 0;      // 0: no layer has experts
  int64_t experts_used = 0;
  int64_t expert_width = 0;
  int64_t shared_width = 0;  // inner width of the shared experts together; 0: none
  Routing routing = Routing::Softmax;
  bool selection_bias = false;     // exp_probs_b is added before the choice, not to the weights
  bool normalise_weights = false;  // of the chosen experts, to a sum of 1
  double weights_scale = 1;

  bool tied_output = false;  // token_embd in place of output

  int64_t cache_width() const {
    return kv_lora + rope;
  }  // of the row that one token leaves in a layer's cache
  bool is_moe(int64_t layer) const { return layer >= dense_layers; }
};

// A tensor that the graph binds: its name ("blk.3." left out for those of a layer) and shape,
// slowest axis first.
struct TensorShape {
  std::string name;
  std::vector<int64_t> rows;  // all but the last axis; empty for vectors
  int64_t k = 0;              // elements of a row
  double share_of_read = 1;   // the part of its bytes that one token reads
};

TensorShape embedding_tensor(const Hyperparameters& model);
std::vector<TensorShape> head_tensors(
    const Hyperparameters& model);  // the norm, then the output matrix
std::vector<TensorShape> layer_tensors(const Hyperparameters& model, int64_t layer);
std::string layer_prefix(int64_t layer);  // "blk.3."

Result<Hyperparameters> read_hyperparameters(const GgufFile& file);

// cos and sin of the angles of every position below `context`, as f32 [context, rope / 2] each,
// computed in double.
struct RopeTables {
  std::vector<float> cos, sin;
};
RopeTables rope_tables(const Hyperparameters& model, int64_t context);

}  // namespace smelt
