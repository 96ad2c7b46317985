// Architecture deepseek2 (GLM-4.7-Flash, DeepSeek V2 and V3, Kimi K2): latent attention; after some dense layers,
// experts.
#pragma once

#include "model/experts.h"
#include "model/mla.h"

namespace smelt {

struct Deepseek2Parameters {
  Hyperparameters common = {};
  MlaParameters attention = {};
  int64_t dense_layers = 0;  // the first ones have one feed-forward network, the others experts
  int64_t dense_width = 0;   // its inner width
  ExpertParameters experts = {};
};

Result<Deepseek2Parameters> read_deepseek2(const GgufFile& file, const std::string& architecture);

class Deepseek2 final : public Model {
 public:
  explicit Deepseek2(Deepseek2Parameters parameters) : p_(std::move(parameters)) {}

  const Deepseek2Parameters& parameters() const { return p_; }

  const Hyperparameters& numbers() const override { return p_.common; }
  bool has_experts(int64_t layer) const override { return layer >= p_.dense_layers; }
  std::vector<TensorShape> layer_tensors(int64_t layer) const override;
  std::vector<PositionTable> position_tables() const override { return rope_tables(p_.attention.rope); }
  std::vector<CachePart> cache_parts(DType type, int64_t) const override { return mla_cache(p_.attention, type); }
  int64_t heads_per_key() const override { return p_.attention.heads; }
  Segment block(const GgufFile& file, const ModelShape& shape, int64_t layer) const override;
  void write_keys(KeyWriter& out) const override;

 private:
  Deepseek2Parameters p_;
};

}  // namespace smelt
