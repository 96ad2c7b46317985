// Architecture phi3 (Phi 3, 3.5 and 4): queries, keys and values are one matrix, gate and up another; halves of a head
// rotate. Models for long contexts divide the frequencies by one list of factors up to the context that they were first
// made for and by another beyond it.
#include "model/architectures.h"
#include "model/transformer.h"

namespace smelt {

namespace {

Status read_phi3_numbers(Keys& keys, TransformerParameters& p) {
  p.attention.window = keys.integer_or("attention.sliding_window", 0, 0, kMostContext);
  read_dense_network(keys, p);
  RopeParameters& rope = p.attention.rope;
  rope.attention_factor = keys.real_or("rope.scaling.attn_factor", 1, 1e-3, 1e3);
  rope.original_context = keys.integer_or("rope.scaling.original_context_length", p.common.context, 1, kMostContext);
  SMELT_TRY(divisors, read_divisors(keys.file(), "rope_factors_short.weight", rope.width / 2));
  SMELT_TRY(long_divisors, read_divisors(keys.file(), "rope_factors_long.weight", rope.width / 2));
  rope.divisors = std::move(divisors);
  rope.long_divisors = std::move(long_divisors);
  return {};
}

}  // namespace

Result<std::shared_ptr<const Model>> read_phi3(const GgufFile& file, const std::string& name) {
  return read_transformer(file, name, {.order = RopeOrder::Halves, .is_fused = true}, {.is_fused = true},
                          read_phi3_numbers);
}

}  // namespace smelt
