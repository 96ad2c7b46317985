#include "graph/eval_view.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "graph/scalar_math.h"

namespace smelt::interpreter {
namespace {

void load_strided(const Storage& storage, int64_t at, int64_t step, int64_t count, double* out) {
  if (storage.bytes.empty()) {
    for (int64_t k = 0; k < count; ++k) out[k] = storage.values[static_cast<size_t>(at + k * step)];
  } else {
    for (int64_t k = 0; k < count; ++k) out[k] = load_element(storage.bytes, storage.dtype, at + k * step);
  }
}

}  // namespace

int64_t count_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Strides row_major(const std::vector<int64_t>& shape) {
  Strides strides(shape.size());
  int64_t step = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    strides[k] = step;
    step *= shape[k];
  }
  return strides;
}

View view_of(std::vector<double> values, std::vector<int64_t> shape) {
  auto storage = std::make_shared<Storage>();
  storage->values = std::move(values);
  Strides strides = row_major(shape);
  return {std::move(storage), std::move(shape), std::move(strides)};
}

double load_element(std::span<const std::byte> bytes, DType dtype, int64_t index) {
  uint64_t bits = 0;
  auto size = static_cast<size_t>(size_of(dtype));
  std::memcpy(&bits, bytes.data() + static_cast<size_t>(index) * size, size);
  Scalar value = from_bits(bits, dtype);
  return is_float(dtype) ? value.f : static_cast<double>(value.i);
}

Walker::Walker(const std::vector<int64_t>& shape, const Strides& strides, int64_t begin, int64_t offset)
    : shape_(shape), strides_(strides), index_(shape.size()), at_(offset) {
  for (size_t k = shape.size(); k-- > 0;) {
    index_[k] = begin % shape[k];
    begin /= shape[k];
    at_ += index_[k] * strides[k];
  }
}

void Walker::advance(int64_t count) {
  if (shape_.empty()) return;
  size_t k = shape_.size() - 1;
  index_[k] += count;
  at_ += count * strides_[k];
  while (index_[k] == shape_[k] && k > 0) {
    at_ -= index_[k] * strides_[k];
    index_[k] = 0;
    --k;
    index_[k] += 1;
    at_ += strides_[k];
  }
}

void read_view(const View& view, int64_t begin, int64_t count, double* out) {
  if (count == 0) return;
  Walker walker(view.shape, view.strides, begin, view.offset);
  while (count > 0) {
    int64_t part = std::min(count, walker.left_in_row());
    load_strided(*view.storage, walker.at(), walker.step(), part, out);
    walker.advance(part);
    out += part;
    count -= part;
  }
}

bool is_row_major(const View& view) {
  Strides wanted = row_major(view.shape);
  for (size_t k = 0; k < view.shape.size(); ++k)
    if (view.shape[k] != 1 && view.strides[k] != wanted[k]) return false;
  return true;
}

}  // namespace smelt::interpreter
