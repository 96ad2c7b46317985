#include "model/deepseek2.h"

#include "model/deepseek2_attention.h"
#include "model/deepseek2_block.h"
#include "model/deepseek2_experts.h"

namespace smelt {

using namespace deepseek2;

Segment embed_segment(const GgufFile& file, const Hyperparameters& model, const ModelShape& shape) {
  Slots slots;
  const Weights weights(file, "", {embedding_tensor(model)}, slots, {});  // rows are looked up
  const Tensor tokens = slots.input(Bound::Tokens, DType::I32, {shape.tokens}, "tokens");
  const Tensor rows = weights.rows("token_embd.weight", tokens);  // [T, D]
  const Ref out = slots.output(Bound::HiddenOut, rows);
  return std::move(slots).finish({out});
}

Segment block_segment(const GgufFile& file, const Hyperparameters& model, const ModelShape& shape,
                      int64_t layer) {
  Slots slots;
  const Weights weights(file, layer_prefix(layer), layer_tensors(model, layer), slots, shape);
  Block b{model, shape, slots, weights};
  auto norm = [&](Tensor x, const char* name) { return rms_norm(x, weights(name), model.epsilon); };

  const Tensor x =
      slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, model.hidden}, "hidden");  // [T, D]
  const Attended attended = attention(b, norm(x, "attn_norm.weight"));
  const Tensor h = x + attended.out;
  const Tensor y = h + feed_forward(b, norm(h, "ffn_norm.weight"), model.is_moe(layer));
  const Ref out = slots.output(Bound::HiddenOut, y);
  Refs roots{out};
  for (Ref written : attended.written_cache) roots.push_back(written);
  return std::move(slots).finish(std::move(roots));
}

Segment head_segment(const GgufFile& file, const Hyperparameters& model, const ModelShape& shape) {
  Slots slots;
  const Weights weights(file, "", head_tensors(model), slots, shape);
  const Tensor hidden =
      slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, model.hidden}, "hidden");
  const Tensor wanted = slots.input(Bound::Rows, DType::I32, {shape.rows}, "rows");
  const Tensor x =
      rms_norm(gather(hidden, wanted), weights("output_norm.weight"), model.epsilon);  // [R, D]
  const Activations in = shape.quantise ? quantise_activations(x) : Activations{x, {}, {}};
  const Tensor logits = weights.product(in, head_tensors(model).back().name);
  const Ref out = slots.output(Bound::Logits, logits);
  return std::move(slots).finish({out});
}

bool expanding_is_cheaper(const Hyperparameters& m, int64_t tokens, int64_t keys) {
  const double absorbed = double(tokens) * double(keys) * double(2 * m.kv_lora + m.rope) +
                          double(tokens) * double(m.kv_lora) * double(m.nope + m.v_head);
  const double expanded = double(tokens) * double(keys) * double(m.nope + m.rope + m.v_head) +
                          double(keys) * double(m.kv_lora) * double(m.nope + m.v_head);
  return expanded < absorbed;
}

}  // namespace smelt
