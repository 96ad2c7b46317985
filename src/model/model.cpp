#include "model/model.h"

#include <algorithm>

#include "gguf/limits.h"
#include "model/block.h"

namespace smelt {
namespace {

constexpr int64_t kMostTokens = 1 << 24;  // of a vocabulary

std::string tokens_text(int64_t tokens) { return std::to_string(tokens) + " rows"; }

// As many as the embedding has rows; whatever else names the number has to agree.
Result<int64_t> read_vocabulary(Keys& keys) {
  const GgufFile& file = keys.file();
  SMELT_TRY(embedding, file.require("token_embd.weight"));
  const auto rows = static_cast<int64_t>(std::min<uint64_t>(embedding->dims[1], INT64_MAX));
  if (rows > kMostTokens)
    return model_error("token_embd.weight", std::to_string(rows) + " tokens; at most 16777216 are supported");
  const std::string has = " where token_embd.weight has " + tokens_text(rows);
  const int64_t key = keys.integer_or("vocab_size", rows, 1, kMostTokens);
  SMELT_CHECK(keys.status());
  if (key != rows) return model_error(keys.name("vocab_size"), std::to_string(key) + has);
  const GgufValue* tokens = file.value("tokenizer.ggml.tokens");
  if (tokens && tokens->count != static_cast<uint64_t>(rows))
    return model_error("tokenizer.ggml.tokens", std::to_string(tokens->count) + " tokens" + has);
  return rows;
}

}  // namespace

Result<Hyperparameters> read_common(Keys& keys, const std::string& architecture) {
  Hyperparameters n{.architecture = architecture};
  const int64_t blocks = keys.integer("block_count", 1, static_cast<int64_t>(gguf_limits::kLayers));
  n.layers = blocks - keys.integer_or("nextn_predict_layers", 0, 0, blocks - 1);
  n.context = keys.integer("context_length", 1, kMostContext);
  n.hidden = keys.integer("embedding_length", 1, kMostWidth);
  n.epsilon = keys.real("attention.layer_norm_rms_epsilon", 1e-12, 0.1);
  n.tied_output = !keys.file().find("output.weight");
  SMELT_CHECK(keys.status());
  SMELT_TRY(vocabulary, read_vocabulary(keys));
  n.vocabulary = vocabulary;
  return n;
}

void write_common(KeyWriter& out, const Hyperparameters& n) {
  out.number("block_count", n.layers);
  out.number("context_length", n.context);
  out.number("embedding_length", n.hidden);
  out.number("vocab_size", n.vocabulary);
  out.real("attention.layer_norm_rms_epsilon", n.epsilon);
  if (n.embedding_scale != 1) out.real("embedding_scale", n.embedding_scale);
  if (n.logit_scale != 1) out.real("logit_scale", n.logit_scale);
}

Status check_tensors(const GgufFile& file, const Model& model) {
  SMELT_CHECK(check_tensors(file, "", {model.embedding_tensor()}));
  SMELT_CHECK(check_tensors(file, "", model.head_tensors()));
  for (int64_t layer = 0; layer < model.numbers().layers; ++layer)
    SMELT_CHECK(check_tensors(file, layer_prefix(layer), model.layer_tensors(layer)));
  return {};
}

TensorShape Model::embedding_tensor() const {
  const Hyperparameters& n = numbers();
  return {"token_embd.weight", {n.vocabulary}, n.hidden, 1.0 / static_cast<double>(n.vocabulary)};
}

std::vector<TensorShape> Model::head_tensors() const {
  const Hyperparameters& n = numbers();
  return {{"output_norm.weight", {}, n.hidden},
          {n.tied_output ? "token_embd.weight" : "output.weight", {n.vocabulary}, n.hidden}};
}

int64_t Model::longest_window() const {
  int64_t longest = 0;
  for (int64_t layer = 0; layer < numbers().layers; ++layer) longest = std::max(longest, window(layer));
  return longest;
}

bool Model::has_states() const {
  for (int64_t layer = 0; layer < numbers().layers; ++layer)
    if (!state_parts(layer).empty()) return true;
  return false;
}

Segment Model::embed(const GgufFile& file, const ModelShape& shape) const {
  Slots slots;
  const Weights weights(file, "", {embedding_tensor()}, slots, {});  // rows are looked up
  Tensor tokens = slots.input(Bound::Tokens, DType::I32, {shape.tokens}, "tokens");
  if (shape.chosen_rows > 0) {
    const Tensor chosen = slots.input(Bound::Chosen, DType::I32, {shape.chosen_rows}, "chosen");
    const Tensor zero = scalar(0, DType::I32), row = maximum(scalar(-1, DType::I32) - tokens, zero);
    tokens = where(less(tokens, zero), gather(chosen, row), tokens);
  }
  const Tensor rows = weights.rows("token_embd.weight", tokens);  // [T, D]
  const double scale = numbers().embedding_scale;
  const Ref out = slots.output(Bound::HiddenOut, scale == 1 ? rows : rows * scale);
  return std::move(slots).finish({out});
}

Segment Model::head(const GgufFile& file, const ModelShape& shape) const {
  const Hyperparameters& n = numbers();
  Slots slots;
  const Weights weights(file, "", head_tensors(), slots, shape);
  const Tensor hidden = slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, n.hidden}, "hidden");
  const Tensor wanted = slots.input(Bound::Rows, DType::I32, {shape.rows}, "rows");
  const Tensor x = rms_norm(gather(hidden, wanted), weights("output_norm.weight"), n.epsilon);  // [R, D]
  const int64_t side_by_side = shape.tokens_side_by_side;  // of prompts few rows are wanted
  const ActivationLayout layout{.rows = *const_int(shape.rows.ref) % side_by_side == 0 ? side_by_side : 1};
  const Activations in = shape.halves_of_batch ? halve_activations(x, layout)
                         : shape.quantise      ? quantise_activations(x, layout)
                                               : Activations{x, {}, {}};
  const Tensor logits = weights.product(in, head_tensors().back().name);
  const Ref out = slots.output(Bound::Logits, n.logit_scale == 1 ? logits : logits * (1 / n.logit_scale));
  return std::move(slots).finish({out});
}

}  // namespace smelt
