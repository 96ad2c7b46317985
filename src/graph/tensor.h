// Tensor: the lazy front end. Each function checks its arguments, works out the shape and builds one node; nothing
// runs.
//
// Shapes may hold variables (number of tokens, chunks of context). Elementwise functions broadcast as numpy does
// (missing leading axes, axes of size 1) and want equal dtypes: write cast() where they differ. A wrong argument is a
// bug of the caller (ENSURE).
//
// Functions whose results often become buffers note the line that called them: see line.h.
#pragma once

#include <string>
#include <vector>

#include "graph/line.h"
#include "graph/node.h"

namespace smelt {

// A dimension: an integer or an i64 scalar node.
struct Dim {
  Dim(int64_t value) : ref(constant(value)) {}
  Dim(int value) : ref(constant(value)) {}
  Dim(Ref value) : ref(value) {}
  Ref ref;
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref node) : node_(node) {}
  Ref ref() const { return node_; }
  const Shape& shape() const { return node_->shape; }
  Ref dim(int axis) const;       // negative axes count from the end
  int64_t size(int axis) const;  // REQUIRES: that dimension is a constant.
  int rank() const { return static_cast<int>(node_->shape.size()); }
  DType dtype() const { return node_->dtype; }
  bool operator==(const Tensor&) const = default;

 private:
  Ref node_;
};

// --- sources
Tensor param(int slot, DType dtype, std::vector<Dim> shape,
             std::string name);  // row-major buffer of a slot
// The same of one that is filled in before any kernel of a run begins, and that none of them writes.
Tensor given_param(int slot, DType dtype, std::vector<Dim> shape, std::string name);
Tensor scalar(double value, DType dtype = DType::F32);  // rank 0, broadcasts
Tensor full(double value, std::vector<Dim> shape, DType dtype = DType::F32);
Tensor iota(std::vector<Dim> shape, int axis);  // i64: the index along axis

// --- movement: never a copy, only index arithmetic
Tensor reshape(Tensor x, std::vector<Dim> shape);
Tensor permute(Tensor x, std::vector<int> axes);
Tensor expand(Tensor x, std::vector<Dim> shape);
Tensor slice(Tensor x, int axis, int64_t begin, Dim size);
Tensor flip(Tensor x, int axis);
// shape(rows) + shape(x)[1:]; rows of any integer dtype
Tensor gather(Tensor x, Tensor rows, Line line = Line::current());
Tensor unsqueeze(Tensor x, int axis);  // a new axis of size 1, before `axis`
Tensor squeeze(Tensor x, int axis);

// --- elementwise
Tensor operator+(Tensor x, Tensor y);
Tensor operator-(Tensor x, Tensor y);
Tensor operator*(Tensor x, Tensor y);
Tensor operator/(Tensor x, Tensor y);  // integers: floor division by a positive number
Tensor operator%(Tensor x, Tensor y);
Tensor operator&(Tensor x, Tensor y);
Tensor operator|(Tensor x, Tensor y);
Tensor operator^(Tensor x, Tensor y);
Tensor operator<<(Tensor x, Tensor y);
Tensor operator>>(Tensor x, Tensor y);
// A number on the right takes the dtype of the tensor.
Tensor operator+(Tensor x, double y);
Tensor operator-(Tensor x, double y);
Tensor operator*(Tensor x, double y);
Tensor operator/(Tensor x, double y);
Tensor operator%(Tensor x, int64_t y);
Tensor operator&(Tensor x, int64_t y);
Tensor operator^(Tensor x, int64_t y);
Tensor operator<<(Tensor x, int64_t y);
Tensor operator>>(Tensor x, int64_t y);
Tensor operator-(Tensor x);
Tensor less(Tensor x, Tensor y);   // bool
Tensor equal(Tensor x, Tensor y);  // bool
Tensor where(Tensor condition, Tensor x, Tensor y);
Tensor maximum(Tensor x, Tensor y);
Tensor minimum(Tensor x, Tensor y);
Tensor cast(Tensor x, DType dtype);
Tensor bitcast(Tensor x, DType dtype);                          // the last axis changes by the ratio of the sizes
Tensor lut(Tensor x, std::vector<int64_t> table, DType dtype);  // table[x]
Tensor exp2(Tensor x);
Tensor log2(Tensor x);
Tensor sqrt(Tensor x);
Tensor floor(Tensor x);
// x, computed once: everything that reads it reads a buffer
Tensor place(Tensor x, Line line = Line::current());
// The same, if something else is computed beside it: what waits for both then waits less. If not, it is computed where
// it is read.
Tensor place_ahead(Tensor x, Line line = Line::current());
bool is_place_ahead(Ref n);
Tensor exp(Tensor x);      // exp2(x * log2(e))
Tensor sigmoid(Tensor x);  // 1 / (1 + exp(-x))
Tensor silu(Tensor x);     // x * sigmoid(x)

// --- reductions; the axis disappears
Tensor sum(Tensor x, int axis, Line line = Line::current());
Tensor max(Tensor x, int axis, Line line = Line::current());
// [..., n] -> [..., k] i32 indices, best first, ties by lower index
Tensor top_k(Tensor x, int k, Line line = Line::current());
// sum over axis of exp(score - max) * value and of exp(score - max): their quotient is softmax-weighted value.
// score and value broadcast against each other; the result is value-shaped without axis.
Tensor softmax_average(Tensor score, Tensor value, int axis, Line line = Line::current());
// The same for values that are bytes q (i8) times a scale that is 1 long behind the axis. Where it is computed in
// chunks of a known length, the weights become bytes, too, and the sums those of products of bytes; or halves, as the
// bytes are then. See split_reduce.h.
constexpr int64_t kBytesTimesScale = 1, kHalvesTimesScale = 2;  // the kinds (arg.i) of such a SoftmaxSum
Tensor softmax_average_of_bytes(Tensor score, Tensor q, Tensor scale, int axis, int64_t kind = kBytesTimesScale,
                                Line line = Line::current());
Tensor softmax(Tensor x, int axis);

// y[..., n] = sum over k of x[..., k] * w[n, k] in f32; w [n, k].
Tensor linear(Tensor x, Tensor w, Line line = Line::current());

// --- effects and roots
// The buffer afterwards; see Op::Write.
Tensor write_rows(Tensor buffer, Tensor rows, int64_t column, Tensor values, Line line = Line::current());
Ref output(int slot, Tensor x);
Ref sink(Refs roots);  // outputs and write_rows(...).ref() that must happen

}  // namespace smelt
