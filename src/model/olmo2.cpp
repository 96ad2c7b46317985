// Architecture olmo2 (OLMo 2 and 3): norms behind attention and network and none in front of them, and one over all
// heads of queries, and of keys. Halves of a head rotate. OLMo 3 has windows in three of four layers, whose frequencies
// are not stretched.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

namespace {

Status read_olmo2_numbers(Keys& keys, TransformerParameters& p) {
  read_dense_network(keys, p);
  const int64_t window = keys.integer_or("attention.sliding_window", 0, 0, kMostContext);
  if (window == 0) return {};
  p.global_every = keys.integer_or("attention.sliding_window_pattern", 4, 1, 1 << 10);
  p.local_attention = p.attention;
  p.local_attention.window = window;
  p.local_attention.rope = {.width = p.attention.rope.width,
                            .base = keys.real_or("rope.freq_base_swa", p.attention.rope.base, 1.001, 1e15)};
  p.local_attention.tables = " local";
  return {};
}

}  // namespace

Result<std::shared_ptr<const Model>> read_olmo2(const GgufFile& file, const std::string& name) {
  return read_transformer(file, name, {.order = RopeOrder::Halves, .needs_norms = true, .norms_span_heads = true},
                          {.pre_norms = false, .post_norms = true}, read_olmo2_numbers);
}

}  // namespace smelt
