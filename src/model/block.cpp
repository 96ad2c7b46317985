#include "model/block.h"

#include "base/ensure.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

WeightLayout layout_of(const std::string& role, GgufType type, int64_t rows, const ModelShape& wanted) {
  const auto chosen = wanted.layouts.find(role);
  return chosen != wanted.layouts.end() && fits(chosen->second, type, rows)
             ? chosen->second
             : default_layout(type, rows, wanted.interleave);
}

}  // namespace

Dim times(Dim x, int64_t factor) {
  const auto value = const_int(x.ref);
  return value ? Dim(*value * factor) : Dim(x.ref * factor);
}

Weights::Weights(const GgufFile& file, const std::string& prefix, const std::vector<TensorShape>& shapes, Slots& slots,
                 const ModelShape& wanted)
    : slots_(slots) {
  for (const TensorShape& shape : shapes) {
    const GgufTensor* tensor = file.find(prefix + shape.name);
    ENSURE(tensor, prefix + shape.name + " is missing: the hyper-parameters are those of another file");
    SlotBinding binding{.kind = Bound::Weight, .name = shape.name, .share_of_read = shape.share_of_read};
    if (wanted.interleave > 1 && !shape.rows.empty() && !is_plain(tensor->type)) {
      binding.role = role_of(shape, tensor->type, wanted.quantise);
      binding.layout = layout_of(binding.role, tensor->type, shape.rows.back(), wanted);
    }
    const WeightLayout layout = binding.layout;
    const int slot = slots.add(std::move(binding));
    std::vector<Dim> rows(shape.rows.begin(), shape.rows.end());
    list_.push_back({shape.name, slot, tensor->type, layout,
                     raw_weight(slot, tensor->type, std::move(rows), shape.k, shape.name, layout),
                     scale_of(file, prefix, shape)});
  }
}

Tensor Weights::scale_of(const GgufFile& file, const std::string& prefix, const TensorShape& shape) const {
  const std::string name = name_of_scale(shape.name);
  if (name.empty() || !file.find(prefix + name)) return {};
  const int slot = slots_.add({.kind = Bound::Weight, .name = name});
  const int64_t matrices = static_cast<int64_t>(file.find(prefix + name)->elements());
  return weight(slot, GgufType::F32, {}, matrices, name);
}

const Weights::Entry& Weights::find(const std::string& name) const {
  for (const Entry& entry : list_)
    if (entry.name == name) return entry;
  ENSURE(false, name + " is not a tensor of this segment");
}

}  // namespace smelt
