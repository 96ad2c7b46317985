// Architecture glm4 (GLM-4-0414, GLM-Z1): pairs of a part of each head rotate; gate and up are one matrix; what
// attention and network give is normalised before it is added.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

Result<std::shared_ptr<const Model>> read_glm4(const GgufFile& file, const std::string& name) {
  return read_transformer(file, name, {.order = RopeOrder::Pairs}, {.is_fused = true, .post_norms = true},
                          [](Keys& keys, TransformerParameters& p) {
                            read_dense_network(keys, p);
                            return Status();
                          });
}

}  // namespace smelt
