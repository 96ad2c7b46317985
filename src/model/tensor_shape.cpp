#include "model/tensor_shape.h"

#include <algorithm>

#include "model/keys.h"

namespace smelt {
namespace {

std::string shape_text(const GgufTensor& t) {
  std::string s = "{" + std::to_string(t.dims[0]);
  for (int i = 1; i < std::max(t.rank, 1); ++i) s += ", " + std::to_string(t.dims[i]);
  return s + "}";
}

std::string shape_text(const TensorShape& t) {
  std::string s = "{" + std::to_string(t.k);
  for (size_t i = t.rows.size(); i-- > 0;) s += ", " + std::to_string(t.rows[i]);
  return s + "}";
}

// Some files write the matrices of heads as one; the bytes are the same. Those of experts are never written so.
bool may_be_one_matrix(const TensorShape& wanted) { return wanted.name.starts_with("attn_"); }

bool has_shape(const GgufTensor& t, const TensorShape& wanted) {
  if (t.dims[0] != static_cast<uint64_t>(wanted.k)) return false;
  uint64_t product = 1;
  bool same = true;
  for (size_t i = 0; i < 3; ++i) {
    const uint64_t rows = i < wanted.rows.size() ? wanted.rows[wanted.rows.size() - 1 - i] : 1;
    product *= rows;
    same = same && t.dims[i + 1] == rows;
  }
  return same || (may_be_one_matrix(wanted) && t.rank == 2 && t.dims[1] == product);
}

}  // namespace

std::string layer_prefix(int64_t layer) { return "blk." + std::to_string(layer) + "."; }

std::string name_of_scale(const std::string& name) {
  constexpr std::string_view kWeight = ".weight";
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) + ".scale" : "";
}

namespace {

// One number, or one for each expert.
Status check_scale(const GgufFile& file, const std::string& prefix, const TensorShape& wanted) {
  const std::string name = prefix + name_of_scale(wanted.name);
  const GgufTensor* scale = name_of_scale(wanted.name).empty() ? nullptr : file.find(name);
  if (!scale) return {};
  const int64_t numbers = wanted.name.ends_with("_exps.weight") ? wanted.rows[0] : 1;
  if (scale->type == GgufType::F32 && scale->elements() == static_cast<uint64_t>(numbers)) return {};
  return model_error(name, "shape " + shape_text(*scale) + " of " + std::string(smelt::name_of(scale->type)) +
                               " where " + std::to_string(numbers) + " of F32 is wanted; convert the model again");
}

}  // namespace

Status check_tensors(const GgufFile& file, const std::string& prefix, const std::vector<TensorShape>& tensors) {
  for (const TensorShape& wanted : tensors) {
    SMELT_TRY(tensor, file.require(prefix + wanted.name));
    if (!has_shape(*tensor, wanted))
      return model_error(prefix + wanted.name, "shape " + shape_text(*tensor) + " where the hyper-parameters ask for " +
                                                   shape_text(wanted) + "; the file is damaged or of another model");
    SMELT_CHECK(check_scale(file, prefix, wanted));
  }
  return {};
}

}  // namespace smelt
