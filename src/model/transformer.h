// The block that most models share: a norm, grouped-query attention, a norm, a gated network or experts; both parts are
// added to the hidden values. Llama, Qwen and GLM-4.5 differ in numbers, in which biases and norms there are, and in
// what their files need not say: each has a reader of its own.
#pragma once

#include "model/experts.h"
#include "model/gqa.h"

namespace smelt {

struct TransformerParameters {
  Hyperparameters common = {};
  GqaParameters attention = {};
  std::string network_norm = "ffn_norm";  // in front of the network: files name it in two ways
  int64_t dense_layers = 0;               // the first ones have one feed-forward network, the others experts
  int64_t dense_width = 0;                // its inner width
  ExpertParameters experts = {};
};

class Transformer final : public Model {
 public:
  explicit Transformer(TransformerParameters parameters) : p_(std::move(parameters)) {}

  const Hyperparameters& numbers() const override { return p_.common; }
  bool has_experts(int64_t layer) const override { return layer >= p_.dense_layers; }
  std::vector<TensorShape> layer_tensors(int64_t layer) const override;
  std::vector<PositionTable> position_tables() const override { return gqa_tables(p_.attention); }
  std::vector<CachePart> cache_parts(DType type) const override { return gqa_cache(p_.attention, type); }
  Segment block(const GgufFile& file, const ModelShape& shape, int64_t layer) const override;
  void write_keys(KeyWriter& out) const override;

 private:
  TransformerParameters p_;
};

// For readers: the model of parameters that were read, if the file has its tensors.
Result<std::shared_ptr<const Model>> transformer_of(const GgufFile& file, TransformerParameters parameters);

}  // namespace smelt
