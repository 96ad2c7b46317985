// Architectures qwen2 (Qwen 2 and 2.5: biases of queries, keys and values), qwen3 (norms of each head in their place),
// qwen3moe (its experts), and qwen3next, qwen35 and qwen35moe, whose layers are delta nets but for every fourth one.
// Halves of a head rotate.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

Result<std::shared_ptr<const Model>> read_qwen2(const GgufFile& file, const std::string& name) {
  return read_transformer(file, name, {.order = RopeOrder::Halves, .needs_bias = true}, {},
                          [](Keys& keys, TransformerParameters& p) {
                            read_dense_network(keys, p);
                            return Status();
                          });
}

Result<std::shared_ptr<const Model>> read_qwen3(const GgufFile& file, const std::string& name) {
  return read_transformer(
      file, name, {.order = RopeOrder::Halves, .needs_norms = true}, {}, [&](Keys& keys, TransformerParameters& p) {
        if (name == "qwen3moe")
          p.experts = read_experts(keys, 0, {.routing = Routing::Softmax, .normalise_weights = true});
        else
          read_dense_network(keys, p);
        return Status();
      });
}

namespace {

Result<std::shared_ptr<const Model>> read_with_delta_nets(const GgufFile& file, const std::string& name,
                                                          bool is_grouped, bool has_experts) {
  const ExpertTraits experts{.routing = Routing::Softmax, .normalise_weights = true, .has_shared_gate = true};
  return read_transformer(file, name, {.order = RopeOrder::Halves, .needs_norms = true, .is_gated = true},
                          {.network_norm = "post_attention_norm"}, [&](Keys& keys, TransformerParameters& p) {
                            p.attention_every = keys.integer_or("full_attention_interval", 4, 1, 1 << 10);
                            if (p.attention_every > 1) p.delta_net = read_delta_net(keys, is_grouped);
                            if (has_experts)
                              p.experts = read_experts(keys, 0, experts);
                            else
                              read_dense_network(keys, p);
                            return Status();
                          });
}

}  // namespace

Result<std::shared_ptr<const Model>> read_qwen35(const GgufFile& file, const std::string& name) {
  return read_with_delta_nets(file, name, false, name == "qwen35moe");
}

Result<std::shared_ptr<const Model>> read_qwen3next(const GgufFile& file, const std::string& name) {
  return read_with_delta_nets(file, name, true, true);
}

}  // namespace smelt
