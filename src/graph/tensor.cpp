#include "graph/tensor.h"

#include <algorithm>
#include <cmath>

#include "base/ensure.h"
#include "graph/operands.h"

namespace smelt {
namespace {

constexpr int64_t kAhead = 1;  // the kind (arg.i) of a Place that wants others beside it

Shape to_shape(const std::vector<Dim>& dims) {
  Shape shape;
  for (const Dim& d : dims) shape.push_back(d.ref);
  return shape;
}

std::vector<Dim> to_dims(const Shape& shape) { return {shape.begin(), shape.end()}; }

int normal_axis(Tensor x, int axis) {
  const int a = axis < 0 ? axis + x.rank() : axis;
  ENSURE(a >= 0 && a < x.rank(), "axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(x.rank()));
  return a;
}

// Numpy's rule for one axis: equal, or one of them 1.
Ref broadcast_dim(Ref a, Ref b) {
  if (a == b || is_const(b, 1)) return a;
  ENSURE(is_const(a, 1), "shapes do not broadcast");
  return b;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  const Ref one = constant(1);
  Shape shape(rank);
  for (size_t i = 0; i < rank; ++i) {
    const Ref da = i + a.size() >= rank ? a[i + a.size() - rank] : one;
    const Ref db = i + b.size() >= rank ? b[i + b.size() - rank] : one;
    shape[i] = broadcast_dim(da, db);
  }
  return shape;
}

Tensor broadcast_to(Tensor x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Shape padded(shape.size() - x.shape().size(), constant(1));
  padded.insert(padded.end(), x.shape().begin(), x.shape().end());
  return expand(reshape(x, to_dims(padded)), to_dims(shape));
}

Tensor elementwise(Op op, Tensor x, Tensor y) {
  const Shape shape = broadcast_shape(x.shape(), y.shape());
  return Tensor(binary(op, broadcast_to(x, shape).ref(), broadcast_to(y, shape).ref()));
}

Tensor number_like(Tensor x, double value) {
  return Tensor(is_float(x.dtype()) ? constant_f(value, x.dtype()) : constant(static_cast<int64_t>(value), x.dtype()));
}

Tensor reduce(Op op, std::vector<Tensor> x, int axis, int64_t kind = 0) {
  const int a = normal_axis(x[0], axis);
  Shape shape = x[0].shape();
  shape.erase(shape.begin() + a);
  Refs src;
  for (Tensor t : x) src.push_back(t.ref());
  return Tensor(make(op, x.back().dtype(), std::move(src), {.i = kind, .list = {a}}, std::move(shape)));
}

std::optional<int64_t> element_count(const Shape& shape) {
  int64_t n = 1;
  for (Ref d : shape) {
    auto c = const_int(d);
    if (!c) return std::nullopt;
    n *= *c;
  }
  return n;
}

}  // namespace

Ref Tensor::dim(int axis) const { return shape()[normal_axis(*this, axis)]; }

int64_t Tensor::size(int axis) const {
  auto c = const_int(dim(axis));
  ENSURE(c, "size of a symbolic dimension");
  return *c;
}

// --- sources

Tensor param(int slot, DType dtype, std::vector<Dim> shape, std::string name) {
  return Tensor(make(Op::Param, dtype, {}, {.i = slot, .name = std::move(name)}, to_shape(shape)));
}

Tensor given_param(int slot, DType dtype, std::vector<Dim> shape, std::string name) {
  return Tensor(make(Op::Param, dtype, {}, {.i = slot, .list = {1}, .name = std::move(name)}, to_shape(shape)));
}

Tensor scalar(double value, DType dtype) {
  return Tensor(is_float(dtype) ? constant_f(value, dtype) : constant(static_cast<int64_t>(value), dtype));
}

Tensor full(double value, std::vector<Dim> shape, DType dtype) {
  return broadcast_to(scalar(value, dtype), to_shape(shape));
}

Tensor iota(std::vector<Dim> shape, int axis) {
  const int a = axis < 0 ? axis + static_cast<int>(shape.size()) : axis;
  return Tensor(make(Op::Iota, DType::I64, {}, {.i = a}, to_shape(shape)));
}

// --- movement

Tensor reshape(Tensor x, std::vector<Dim> dims) {
  Shape shape = to_shape(dims);
  if (shape == x.shape()) return x;
  const auto before = element_count(x.shape()), after = element_count(shape);
  ENSURE(!before || !after || *before == *after, "reshape changes the number of elements");
  if (x.ref()->op == Op::Reshape) return reshape(Tensor(operand_of(x.ref())), std::move(dims));
  return Tensor(make(Op::Reshape, x.dtype(), {x.ref()}, {}, std::move(shape)));
}

Tensor permute(Tensor x, std::vector<int> axes) {
  ENSURE(static_cast<int>(axes.size()) == x.rank(), "permute: wrong number of axes");
  if (std::is_sorted(axes.begin(), axes.end())) return x;
  Shape shape;
  std::vector<int64_t> list;
  for (int a : axes) {
    shape.push_back(x.dim(a));
    list.push_back(normal_axis(x, a));
  }
  return Tensor(make(Op::Permute, x.dtype(), {x.ref()}, {.list = std::move(list)}, std::move(shape)));
}

Tensor expand(Tensor x, std::vector<Dim> dims) {
  Shape shape = to_shape(dims);
  if (shape == x.shape()) return x;
  ENSURE(shape.size() == x.shape().size(), "expand keeps the rank");
  for (size_t i = 0; i < shape.size(); ++i)
    ENSURE(shape[i] == x.shape()[i] || is_const(x.shape()[i], 1), "expand: only axes of size 1 grow");
  return Tensor(make(Op::Expand, x.dtype(), {x.ref()}, {}, std::move(shape)));
}

Tensor slice(Tensor x, int axis, int64_t begin, Dim size) {
  const int a = normal_axis(x, axis);
  if (begin == 0 && size.ref == x.shape()[a]) return x;
  const auto n = const_int(size.ref), total = const_int(x.shape()[a]);
  ENSURE(begin >= 0 && (!n || !total || begin + *n <= *total), "slice is outside the axis");
  Shape shape = x.shape();
  shape[a] = size.ref;
  std::vector<int64_t> begins(shape.size(), 0);
  begins[a] = begin;
  return Tensor(make(Op::Shrink, x.dtype(), {x.ref()}, {.list = std::move(begins)}, std::move(shape)));
}

Tensor flip(Tensor x, int axis) {
  return Tensor(make(Op::Flip, x.dtype(), {x.ref()}, {.i = normal_axis(x, axis)}, x.shape()));
}

Tensor gather(Tensor x, Tensor rows, Line line) {
  const AtLine at(line);
  ENSURE(x.rank() >= 1 && is_int(rows.dtype()), "gather wants integer rows");
  Shape shape = rows.shape();
  shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
  return Tensor(make(Op::Gather, x.dtype(), {x.ref(), rows.ref()}, {}, std::move(shape)));
}

Tensor unsqueeze(Tensor x, int axis) {
  Shape shape = x.shape();
  const int a = axis < 0 ? axis + x.rank() + 1 : axis;
  shape.insert(shape.begin() + a, constant(1));
  return reshape(x, to_dims(shape));
}

Tensor squeeze(Tensor x, int axis) {
  const int a = normal_axis(x, axis);
  ENSURE(is_const(x.shape()[a], 1), "squeeze of an axis that is not 1");
  Shape shape = x.shape();
  shape.erase(shape.begin() + a);
  return reshape(x, to_dims(shape));
}

// --- elementwise

Tensor operator+(Tensor x, Tensor y) { return elementwise(Op::Add, x, y); }
Tensor operator-(Tensor x, Tensor y) { return elementwise(Op::Sub, x, y); }
Tensor operator*(Tensor x, Tensor y) { return elementwise(Op::Mul, x, y); }
Tensor operator/(Tensor x, Tensor y) { return elementwise(Op::Div, x, y); }
Tensor operator%(Tensor x, Tensor y) { return elementwise(Op::Mod, x, y); }
Tensor operator&(Tensor x, Tensor y) { return elementwise(Op::And, x, y); }
Tensor operator|(Tensor x, Tensor y) { return elementwise(Op::Or, x, y); }
Tensor operator^(Tensor x, Tensor y) { return elementwise(Op::Xor, x, y); }
Tensor operator<<(Tensor x, Tensor y) { return elementwise(Op::Shl, x, y); }
Tensor operator>>(Tensor x, Tensor y) { return elementwise(Op::Shr, x, y); }
Tensor operator+(Tensor x, double y) { return x + number_like(x, y); }
Tensor operator-(Tensor x, double y) { return x - number_like(x, y); }
Tensor operator*(Tensor x, double y) { return x * number_like(x, y); }
Tensor operator/(Tensor x, double y) { return x / number_like(x, y); }
Tensor operator%(Tensor x, int64_t y) { return x % number_like(x, static_cast<double>(y)); }
Tensor operator&(Tensor x, int64_t y) { return x & number_like(x, static_cast<double>(y)); }
Tensor operator^(Tensor x, int64_t y) { return x ^ number_like(x, static_cast<double>(y)); }
Tensor operator<<(Tensor x, int64_t y) { return x << number_like(x, static_cast<double>(y)); }
Tensor operator>>(Tensor x, int64_t y) { return x >> number_like(x, static_cast<double>(y)); }
Tensor operator-(Tensor x) { return Tensor(unary(Op::Neg, x.ref())); }
Tensor less(Tensor x, Tensor y) { return elementwise(Op::Lt, x, y); }
Tensor equal(Tensor x, Tensor y) { return elementwise(Op::Eq, x, y); }
Tensor maximum(Tensor x, Tensor y) { return elementwise(Op::Max, x, y); }
Tensor minimum(Tensor x, Tensor y) { return elementwise(Op::Min, x, y); }

Tensor where(Tensor condition, Tensor x, Tensor y) {
  const Shape shape = broadcast_shape(condition.shape(), broadcast_shape(x.shape(), y.shape()));
  return Tensor(
      where(broadcast_to(condition, shape).ref(), broadcast_to(x, shape).ref(), broadcast_to(y, shape).ref()));
}

Tensor cast(Tensor x, DType dtype) { return Tensor(cast(x.ref(), dtype)); }

Tensor bitcast(Tensor x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const int from = size_of(x.dtype()), to = size_of(dtype);
  Shape shape = x.shape();
  if (from != to) {
    const int64_t bytes = x.size(-1) * from;
    ENSURE(bytes % to == 0, "bitcast: the last axis does not divide");
    shape.back() = constant(bytes / to);
  }
  return Tensor(make(Op::Bitcast, dtype, {x.ref()}, {}, std::move(shape)));
}

Tensor lut(Tensor x, std::vector<int64_t> table, DType dtype) {
  return Tensor(make(Op::Lut, dtype, {x.ref()}, {.list = std::move(table)}, x.shape()));
}

Tensor exp2(Tensor x) { return Tensor(unary(Op::Exp2, x.ref())); }
Tensor log2(Tensor x) { return Tensor(unary(Op::Log2, x.ref())); }
Tensor sqrt(Tensor x) { return Tensor(unary(Op::Sqrt, x.ref())); }
Tensor floor(Tensor x) { return Tensor(unary(Op::Floor, x.ref())); }
Tensor place(Tensor x, Line line) {
  const AtLine at(line);
  return Tensor(unary(Op::Place, x.ref()));
}
Tensor place_ahead(Tensor x, Line line) {
  const AtLine at(line);
  return Tensor(make(Op::Place, x.dtype(), {x.ref()}, {.i = kAhead}, x.ref()->shape));
}
bool is_place_ahead(Ref n) { return n->op == Op::Place && n->arg.i == kAhead; }
Tensor exp(Tensor x) { return exp2(x * M_LOG2E); }
Tensor sigmoid(Tensor x) { return scalar(1, x.dtype()) / (exp(-x) + 1.0); }
Tensor silu(Tensor x) { return x * sigmoid(x); }

// --- reductions

Tensor sum(Tensor x, int axis, Line line) {
  const AtLine at(line);
  return reduce(Op::ReduceSum, {x}, axis);
}
Tensor max(Tensor x, int axis, Line line) {
  const AtLine at(line);
  return reduce(Op::ReduceMax, {x}, axis);
}

Tensor top_k(Tensor x, int k, Line line) {
  const AtLine at(line);
  Shape shape = x.shape();
  shape.back() = constant(k);
  return Tensor(make(Op::TopK, DType::I32, {x.ref()}, {.i = k, .list = {x.rank() - 1}}, std::move(shape)));
}

namespace {

// The denominator does not depend on the axes along which the score was repeated: it is summed once, then repeated.
Tensor denominator_of(Tensor score, int axis, size_t rank, int64_t kind = 0) {
  const Tensor narrow = broadcast_to(score, broadcast_shape(score.shape(), Shape(rank, constant(1))));
  return reduce(Op::SoftmaxSum, {narrow, broadcast_to(number_like(score, 1), narrow.shape())}, axis, kind);
}

}  // namespace

Tensor softmax_average(Tensor score, Tensor value, int axis, Line line) {
  const AtLine at(line);
  const Shape shape = broadcast_shape(score.shape(), value.shape());
  const Tensor s = broadcast_to(score, shape), v = broadcast_to(value, shape);
  const int a = normal_axis(s, axis);
  return reduce(Op::SoftmaxSum, {s, v}, a) / denominator_of(score, a, shape.size());
}

Tensor softmax_average_of_bytes(Tensor score, Tensor q, Tensor scale, int axis, int64_t kind, Line line) {
  const AtLine at(line);
  const Shape shape = broadcast_shape(score.shape(), q.shape());
  const Tensor s = broadcast_to(score, shape);
  const int a = normal_axis(s, axis);
  ENSURE(q.dtype() == DType::I8 && scale.dtype() == DType::F32, "values of bytes: i8 and f32");
  for (int k = a + 1; k < s.rank(); ++k)
    ENSURE(scale.size(k) == 1, "values of bytes: one scale for all that is behind the axis");
  const Tensor v = cast(broadcast_to(q, shape), DType::F32) * broadcast_to(scale, shape);
  return reduce(Op::SoftmaxSum, {s, v}, a, kind) / denominator_of(score, a, shape.size(), kind);
}

Tensor softmax(Tensor x, int axis) {
  const int a = normal_axis(x, axis);
  const Tensor e = exp(x - unsqueeze(max(x, a), a));
  return e / unsqueeze(sum(e, a), a);
}

Tensor linear(Tensor x, Tensor w, Line line) {
  const AtLine at(line);
  ENSURE(w.rank() == 2 && x.dim(-1) == w.dim(1), "linear: inner sizes differ");
  return sum(unsqueeze(x, x.rank() - 1) * w, -1);
}

// --- effects and roots

Tensor write_rows(Tensor buffer, Tensor rows, int64_t column, Tensor values, Line line) {
  const AtLine at(line);
  ENSURE(buffer.rank() == 2 && rows.rank() == 1 && values.rank() == 2, "write_rows wants [rows, columns], [n], [n, c]");
  ENSURE(buffer.dtype() == values.dtype() && rows.dim(0) == values.dim(0), "write_rows: values do not fit the buffer");
  ENSURE(column + values.size(1) <= buffer.size(1), "write_rows: columns outside the buffer");
  return Tensor(
      make(Op::Write, buffer.dtype(), {buffer.ref(), rows.ref(), values.ref()}, {.i = column}, buffer.shape()));
}

Ref output(int slot, Tensor x) { return make(Op::Output, x.dtype(), {x.ref()}, {.i = slot}, x.shape()); }
Ref sink(Refs roots) { return make(Op::Sink, DType::Void, std::move(roots)); }

}  // namespace smelt
