#include "model/block.h"

#include <numeric>

#include "base/ensure.h"
#include "graph/rules_algebra.h"
#include "model/block_groups.h"

namespace smelt {
namespace {

WeightLayout layout_of(const std::string& role, GgufType type, const TensorShape& shape, const ModelShape& wanted) {
  const int64_t rows = shape.rows.back();
  const auto chosen = wanted.layouts.find(role);
  const bool is_chosen = chosen != wanted.layouts.end() && fits(chosen->second, type, rows);
  return with_split(is_chosen ? chosen->second : default_layout(type, rows, wanted.interleave, wanted.piece), rows,
                    shape.split);
}

// Numbers of rows that lie as in the file, as TensorShape::split wants them.
Tensor split_rows(Tensor x, int split) {
  const int64_t n = x.size(-1);
  const Tensor pairs = with_last_axes(x, 1, {n / split, split / 2, 2});
  std::vector<int> axes(static_cast<size_t>(pairs.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return with_last_axes(permute(pairs, axes), 3, {n});
}

}  // namespace

Dim times(Dim x, int64_t factor) {
  const auto value = const_int(x.ref);
  return value ? Dim(*value * factor) : Dim(x.ref * factor);
}

void Slots::sums(const std::string& name, int64_t elements, Tensor x) {
  for (const auto& [known, slot] : sums_)
    if (known == x) return list_[static_cast<size_t>(slot)].same_as.push_back(name);
  sums_.emplace_back(x, add({.kind = Bound::InputSums, .name = name, .elements = elements}));
}

Weights::Weights(const GgufFile& file, const std::string& prefix, const std::vector<TensorShape>& shapes, Slots& slots,
                 const ModelShape& wanted)
    : slots_(slots), sums_inputs_(wanted.sums_inputs) {
  for (const TensorShape& shape : shapes) {
    const GgufTensor* tensor = file.find(prefix + shape.name);
    ENSURE(tensor, prefix + shape.name + " is missing: the hyper-parameters are those of another file");
    SlotBinding binding{
        .kind = Bound::Weight, .name = shape.name, .share_of_read = shape.share_of_read, .split = shape.split};
    if (wanted.interleave > 1 && !shape.rows.empty() && !is_plain(tensor->type)) {
      binding.role = role_of(shape, tensor->type, wanted.quantise);
      binding.layout = layout_of(binding.role, tensor->type, shape, wanted);
    }
    const auto bytes = static_cast<int64_t>(tensor->bytes);
    if (!is_plain(tensor->type)) superblock_bytes_ += has_superblocks(tensor->type) ? bytes : -bytes;
    const WeightLayout layout = binding.layout;
    const int slot = slots.add(std::move(binding));
    std::vector<Dim> rows(shape.rows.begin(), shape.rows.end());
    const int64_t matrices = shape.rows.size() > 1 ? shape.rows.front() : 1;
    list_.push_back({shape.name, slot, matrices, tensor->type, layout,
                     raw_weight(slot, tensor->type, std::move(rows), shape.k, shape.name, layout),
                     scale_of(file, prefix, shape), layout.split ? 0 : shape.split});
  }
}

Tensor Weights::scale_of(const GgufFile& file, const std::string& prefix, const TensorShape& shape) const {
  const std::string name = name_of_scale(shape.name);
  if (name.empty() || !file.find(prefix + name)) return {};
  const int slot = slots_.add({.kind = Bound::Weight, .name = name});
  const int64_t matrices = static_cast<int64_t>(file.find(prefix + name)->elements());
  return weight(slot, GgufType::F32, {}, matrices, name);
}

Tensor Weights::in_order(const Entry& w, Tensor x) { return w.split ? split_rows(x, w.split) : x; }

void Weights::sum_inputs(const Entry& w, Tensor x) const {
  slots_.sums(w.name + ".in_sum2", w.matrices * x.size(-1), sum(x * x, 0));
}

void Weights::sum_inputs(const Entry& w, Tensor x, Tensor chosen) const {
  ENSURE(chosen.size(1) == 1, "places that no token has are summed, too: " + w.name);
  const Tensor matrix = unsqueeze(cast(iota({w.matrices}, 0), DType::I32), 1);
  const Tensor hit = equal(squeeze(chosen, 1), matrix);  // [matrices, pairs]
  const Tensor row = squeeze(x, 1);                      // [pairs, k]
  slots_.sums(w.name + ".in_sum2", w.matrices * x.size(-1), sum(where(unsqueeze(hit, 2), row * row, scalar(0)), 1));
  slots_.sums(w.name + ".counts", w.matrices, sum(cast(hit, DType::F32), 1));
}

const Weights::Entry& Weights::find(const std::string& name) const {
  for (const Entry& entry : list_)
    if (entry.name == name) return entry;
  ENSURE(false, name + " is not a tensor of this segment");
}

}  // namespace smelt
