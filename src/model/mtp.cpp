#include "model/mtp.h"

#include "model/block.h"

namespace smelt {
namespace {

std::string in_layer(const Model& model, const char* name) { return layer_prefix(model.numbers().layers) + name; }

// `own` where the file has it, else the one of the trunk.
std::string own_or(const GgufFile& file, const Model& model, const char* own, const std::string& of_trunk) {
  const std::string name = in_layer(model, own);
  return file.find(name) ? name : of_trunk;
}

TensorShape embedding(const GgufFile& file, const Model& model) {
  TensorShape shape = model.embedding_tensor();
  shape.name = own_or(file, model, "nextn.embed_tokens.weight", shape.name);
  return shape;
}

std::vector<TensorShape> input_tensors(const Model& model) {
  const int64_t hidden = model.numbers().hidden;
  return {model.head_tensors().front(),
          {in_layer(model, "nextn.enorm.weight"), {}, hidden},
          {in_layer(model, "nextn.hnorm.weight"), {}, hidden},
          {in_layer(model, "nextn.eh_proj.weight"), {hidden}, 2 * hidden}};
}

std::vector<TensorShape> head_tensors(const GgufFile& file, const Model& model) {
  TensorShape output = model.head_tensors().back();
  output.name = own_or(file, model, "nextn.shared_head_head.weight", output.name);
  return {{in_layer(model, "nextn.shared_head_norm.weight"), {}, model.numbers().hidden}, output};
}

// x, y [T, D] -> [T, 2 D]
Tensor side_by_side(Tensor x, Tensor y, const Dim& tokens, int64_t width) {
  const Tensor is_first = unsqueeze(unsqueeze(equal(iota({2}, 0), scalar(0, DType::I64)), 0), 2);  // [1, 2, 1]
  return reshape(where(is_first, unsqueeze(x, 1), unsqueeze(y, 1)), {tokens, 2 * width});
}

}  // namespace

Status check_mtp(const GgufFile& file, const Model& model) {
  if (!file.find(in_layer(model, "nextn.eh_proj.weight")))
    return model_error(in_layer(model, "nextn.eh_proj.weight"),
                       "this file has no head for multi-token prediction; choose one that has, or run without --mtp");
  SMELT_CHECK(check_tensors(file, "", {embedding(file, model)}));
  SMELT_CHECK(check_tensors(file, "", input_tensors(model)));
  SMELT_CHECK(check_tensors(file, "", head_tensors(file, model)));
  return check_tensors(file, layer_prefix(model.numbers().layers), model.layer_tensors(model.numbers().layers));
}

Segment mtp_input(const GgufFile& file, const Model& model, const ModelShape& shape) {
  const Hyperparameters& n = model.numbers();
  Slots slots;
  const Weights embeddings(file, "", {embedding(file, model)}, slots, {});  // rows are looked up
  const std::vector<TensorShape> tensors = input_tensors(model);
  const Weights weights(file, "", tensors, slots, shape);
  const auto norm = [&](Tensor x, size_t tensor) { return rms_norm(x, weights(tensors[tensor].name), n.epsilon); };

  const Tensor tokens = slots.input(Bound::Tokens, DType::I32, {shape.tokens}, "tokens");
  const Tensor rows = embeddings.rows(embedding(file, model).name, tokens);  // [T, D]
  const Tensor embedded = n.embedding_scale == 1 ? rows : rows * n.embedding_scale;
  Tensor hidden;  // [T, D]
  if (shape.many_tokens) {
    hidden = slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, n.hidden}, "hidden");
  } else {
    const Tensor all = slots.input(Bound::HiddenIn, DType::F32, {shape.hidden_rows, n.hidden}, "hidden");
    hidden = gather(all, slots.input(Bound::Rows, DType::I32, {shape.tokens}, "rows"));
  }
  const Tensor x = place(side_by_side(norm(embedded, 1), norm(norm(hidden, 0), 2), shape.tokens, n.hidden));
  const Activations in = shape.quantise ? quantise_activations(x) : Activations{x, {}, {}};
  const Ref out = slots.output(Bound::HiddenOut, weights.product(in, tensors[3].name));
  return std::move(slots).finish({out});
}

Segment mtp_head(const GgufFile& file, const Model& model, const ModelShape& shape) {
  const Hyperparameters& n = model.numbers();
  Slots slots;
  const std::vector<TensorShape> tensors = head_tensors(file, model);
  const Weights weights(file, "", tensors, slots, shape);
  const Tensor hidden = slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, n.hidden}, "hidden");
  const Tensor x = rms_norm(slice(hidden, 0, 0, 1), weights(tensors[0].name), n.epsilon);  // [1, D]
  const Activations in = shape.quantise ? quantise_activations(x) : Activations{x, {}, {}};
  const Ref out = slots.output(Bound::Logits, weights.product(in, tensors[1].name));
  return std::move(slots).finish({out});
}

}  // namespace smelt
