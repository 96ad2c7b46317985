// The block that most models share: a norm, grouped-query attention, a norm, a gated network or experts; what comes out
// of both is added to the hidden values. Some layers may have a delta net in place of the attention. Llama, Qwen,
// GLM-4.5, Gemma and gpt-oss differ in numbers, in which biases and norms there are, and in what their files need not
// say: each has a reader of its own.
#pragma once

#include <functional>

#include "model/delta_net.h"
#include "model/experts.h"
#include "model/gqa.h"

namespace smelt {

struct TransformerParameters {
  Hyperparameters common = {};
  GqaParameters attention = {};
  int64_t global_every = 1;               // of so many layers the last one sees all positions;
  GqaParameters local_attention = {};     // the others have a window. Its heads are those of `attention`
  int64_t attention_every = 1;            // of so many layers the last one has attention,
  DeltaNetParameters delta_net = {};      // the others this
  std::string network_norm = "ffn_norm";  // in front of the network: files name it in two ways
  int64_t dense_layers = 0;               // the first ones have one feed-forward network, the others experts
  int64_t dense_width = 0;                // its inner width
  ExpertParameters experts = {};
  Activation activation = Activation::Silu;  // of dense layers
  bool is_fused = false;                     // gate and up of dense layers are one matrix: ffn_up
  bool pre_norms = true;                     // of what attention and network take
  bool post_norms = false;                   // of what they give, before it is added
  double residual_scale = 1;                 // this is multiplied by it
};

class Transformer final : public Model {
 public:
  explicit Transformer(TransformerParameters parameters) : p_(std::move(parameters)) {}

  const Hyperparameters& numbers() const override { return p_.common; }
  bool has_experts(int64_t layer) const override { return layer >= p_.dense_layers; }
  std::vector<TensorShape> layer_tensors(int64_t layer) const override;
  std::vector<PositionTable> position_tables() const override;
  std::vector<CachePart> cache_parts(DType type, int64_t layer) const override;
  int64_t heads_per_key() const override { return p_.attention.heads_per_key(); }
  int64_t window(int64_t layer) const override { return has_attention(layer) ? attention(layer).window : 0; }
  std::vector<StatePart> state_parts(int64_t layer) const override;
  Segment block(const GgufFile& file, const ModelShape& shape, int64_t layer) const override;
  void write_keys(KeyWriter& out) const override;

 private:
  const GqaParameters& attention(int64_t layer) const {
    return (layer + 1) % p_.global_every == 0 ? p_.attention : p_.local_attention;
  }

  bool has_attention(int64_t layer) const {
    return layer >= p_.common.layers || (layer + 1) % p_.attention_every == 0;  // so has a layer that predicts tokens
  }

  bool has_local_tables() const { return p_.global_every > 1 && p_.local_attention.tables != p_.attention.tables; }

  TransformerParameters p_;
};

// For readers of architectures.

// What an architecture reads besides what all have; it may also change that. Wrong keys it leaves there.
using ReadMore = std::function<Status(Keys& keys, TransformerParameters& p)>;
// The model of `traits`, whose common numbers, attention and further numbers are read, if the file has its tensors.
Result<std::shared_ptr<const Model>> read_transformer(const GgufFile& file, const std::string& name,
                                                      const GqaTraits& attention, TransformerParameters traits,
                                                      const ReadMore& more);

// All layers have one network.
void read_dense_network(Keys& keys, TransformerParameters& p);
// The same, or, where the file counts experts, those of Mixtral in all layers: files may give their width as that of
// the one network.
void read_network_or_experts(Keys& keys, TransformerParameters& p);

}  // namespace smelt
