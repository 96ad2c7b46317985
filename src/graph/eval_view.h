// Tensors of the interpreter as views of memory, which movement ops change without copying. Private
// to eval.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace smelt::interpreter {

// Numbers in memory: computed doubles, or the bytes of a caller's buffer.
struct Storage {
  std::vector<double> values;
  std::span<const std::byte> bytes;
  DType dtype = DType::F64;  // of bytes
};

using Strides = std::vector<int64_t>;

// Elements of a storage, addressed by an index per axis.
struct View {
  std::shared_ptr<const Storage> storage;
  std::vector<int64_t> shape;
  Strides strides;  // in elements
  int64_t offset = 0;
};

int64_t count_of(const std::vector<int64_t>& shape);
Strides row_major(const std::vector<int64_t>& shape);
View view_of(std::vector<double> values, std::vector<int64_t> shape);

// Whether the elements lie one after the other in the order of their indices.
bool is_row_major(const View& view);

// Elements begin .. begin + count - 1 in row-major order.
void read_view(const View& view, int64_t begin, int64_t count, double* out);

// Element `index` of an array in memory.
double load_element(std::span<const std::byte> bytes, DType dtype, int64_t index);

// Walks indices of a shape in row-major order and keeps a linear function of them: where the element
// is. The shape and strides must outlive it.
class Walker {
 public:
  // From the element numbered `begin` on. REQUIRES: no axis is empty.
  Walker(const std::vector<int64_t>& shape, const Strides& strides, int64_t begin, int64_t offset);

  int64_t at() const { return at_; }
  int64_t step() const { return shape_.empty() ? 0 : strides_.back(); }
  // Elements from here to the end of the last axis.
  int64_t left_in_row() const { return shape_.empty() ? 1 : shape_.back() - index_.back(); }

  // REQUIRES: count <= left_in_row().
  void advance(int64_t count);

 private:
  const std::vector<int64_t>& shape_;
  const Strides& strides_;
  std::vector<int64_t> index_;
  int64_t at_;
};

}  // namespace smelt::interpreter
