// Architecture llama (Llama 2 and 3, Mistral): grouped-query attention, one gated network a block.
#pragma once

#include "model/experts.h"
#include "model/gqa.h"

namespace smelt {

struct LlamaParameters {
  Hyperparameters common = {};
  GqaParameters attention = {};
  int64_t width = 0;  // inner width of the network
};

Result<LlamaParameters> read_llama(const GgufFile& file, const std::string& architecture);

class Llama final : public Model {
 public:
  explicit Llama(LlamaParameters parameters) : p_(std::move(parameters)) {}

  const LlamaParameters& parameters() const { return p_; }

  const Hyperparameters& numbers() const override { return p_.common; }
  bool has_experts(int64_t) const override { return false; }
  std::vector<TensorShape> layer_tensors(int64_t layer) const override;
  std::vector<PositionTable> position_tables() const override { return rope_tables(p_.attention.rope); }
  std::vector<CachePart> cache_parts(DType type) const override { return gqa_cache(p_.attention, type); }
  Segment block(const GgufFile& file, const ModelShape& shape, int64_t layer) const override;
  void write_keys(KeyWriter& out) const override;

 private:
  LlamaParameters p_;
};

}  // namespace smelt
