#include "egraph/terms.h"

#include <algorithm>

#include "base/ensure.h"

namespace smelt::egraph {
namespace {

ENode make(const EGraph& g, EOp op, std::vector<ClassId> src, Arg arg, Shape shape) {
  return {op, g.facts(src[0]).dtype, std::move(arg), std::move(shape), std::move(src)};
}

ClassId movement(EGraph& g, Op op, ClassId x, Arg arg, Shape shape) {
  return g.add(make(g, eop(op), {x}, std::move(arg), std::move(shape)));
}

Shape rows_and_rest(const EGraph& g, ClassId x, ClassId rows) {
  Shape shape = shape_of(g, rows);
  const Shape& from = shape_of(g, x);
  shape.insert(shape.end(), from.begin() + 1, from.end());
  return shape;
}

}  // namespace

Shape shape_of(const EGraph& g, ClassId x) { return g.facts(x).shape; }
int rank_of(const EGraph& g, ClassId x) { return static_cast<int>(shape_of(g, x).size()); }

std::optional<int64_t> size_of(const EGraph& g, ClassId x, int axis) {
  const Shape& shape = shape_of(g, x);
  return const_int(shape[static_cast<size_t>(axis < 0 ? axis + rank_of(g, x) : axis)]);
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape shape(rank, constant(1));
  for (const Shape* s : {&a, &b})
    for (size_t i = 0; i < s->size(); ++i) {
      Ref& to = shape[rank - s->size() + i];
      if ((*s)[i] == to || is_const((*s)[i], 1)) continue;
      if (!is_const(to, 1)) return std::nullopt;
      to = (*s)[i];
    }
  return shape;
}

ClassId weight(EGraph& g, int64_t slot, std::string name, Shape shape) {
  return g.add({EOp::Weight, DType::F32, {.i = slot, .name = std::move(name)}, std::move(shape), {}});
}

ClassId contract(EGraph& g, ClassId x, ClassId w) {
  const Shape &left = shape_of(g, x), &right = shape_of(g, w);
  ENSURE(!left.empty() && right.size() >= 2 && left.back() == right.back(), "contract: inner sizes differ");
  auto shape = broadcast({left.begin(), left.end() - 1}, Shape(right.begin(), right.end() - 2));
  ENSURE(shape, "contract: the axes in front do not broadcast");
  shape->push_back(right[right.size() - 2]);
  return g.add(make(g, EOp::Contract, {x, w}, {}, std::move(*shape)));
}

ClassId concat(EGraph& g, std::vector<ClassId> parts, int axis) {
  if (parts.size() == 1) return parts[0];
  int64_t total = 0;
  for (ClassId part : parts) total += size_of(g, part, axis).value();
  Shape shape = shape_of(g, parts[0]);
  shape[static_cast<size_t>(axis)] = constant(total);
  return g.add(make(g, EOp::Concat, std::move(parts), {.i = axis}, std::move(shape)));
}

ClassId gather(EGraph& g, ClassId x, ClassId rows) {
  return g.add(make(g, eop(Op::Gather), {x, rows}, {}, rows_and_rest(g, x, rows)));
}
ClassId gathered_copy(EGraph& g, ClassId x, ClassId rows) {
  return g.add(make(g, EOp::GatheredCopy, {x, rows}, {}, rows_and_rest(g, x, rows)));
}

ClassId select(EGraph& g, ClassId y, ClassId rows) {
  Shape shape = shape_of(g, rows);  // [..., K]
  ENSURE(
      shape.size() + 1 == shape_of(g, y).size() && std::equal(shape.begin(), shape.end() - 1, shape_of(g, y).begin()),
      "select: the axes in front differ");
  shape.push_back(shape_of(g, y).back());
  return g.add(make(g, EOp::Select, {y, rows}, {}, std::move(shape)));
}

ClassId quantised(EGraph& g, ClassId x) { return g.add(make(g, EOp::Quantised, {x}, {}, shape_of(g, x))); }

ClassId reshape(EGraph& g, ClassId x, Shape shape) {
  if (shape == shape_of(g, x)) return x;
  return movement(g, Op::Reshape, x, {}, std::move(shape));
}

ClassId permute(EGraph& g, ClassId x, std::vector<int64_t> axes) {
  if (std::ranges::is_sorted(axes)) return x;
  Shape shape;
  for (int64_t a : axes) shape.push_back(shape_of(g, x)[static_cast<size_t>(a)]);
  return movement(g, Op::Permute, x, {.list = std::move(axes)}, std::move(shape));
}

ClassId expand(EGraph& g, ClassId x, Shape shape) {
  if (shape == shape_of(g, x)) return x;
  return movement(g, Op::Expand, x, {}, std::move(shape));
}

ClassId shrink(EGraph& g, ClassId x, int axis, int64_t begin, Ref size) {
  Shape shape = shape_of(g, x);
  if (begin == 0 && shape[static_cast<size_t>(axis)] == size) return x;
  shape[static_cast<size_t>(axis)] = size;
  std::vector<int64_t> begins(shape.size(), 0);
  begins[static_cast<size_t>(axis)] = begin;
  return movement(g, Op::Shrink, x, {.list = std::move(begins)}, std::move(shape));
}

ClassId reduce_sum(EGraph& g, ClassId x, int axis) {
  Shape shape = shape_of(g, x);
  shape.erase(shape.begin() + axis);
  return movement(g, Op::ReduceSum, x, {.list = {axis}}, std::move(shape));
}

ClassId softmax_sum(EGraph& g, ClassId score, ClassId value, int axis) {
  Shape shape = shape_of(g, value);
  ENSURE(shape == shape_of(g, score), "softmax_sum: shapes differ");
  shape.erase(shape.begin() + axis);
  return g.add(make(g, eop(Op::SoftmaxSum), {score, value}, {.list = {axis}}, std::move(shape)));
}

ClassId transpose(EGraph& g, ClassId w) {
  std::vector<int64_t> axes(shape_of(g, w).size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return permute(g, w, std::move(axes));
}

ClassId unsqueeze(EGraph& g, ClassId x, int axis) {
  Shape shape = shape_of(g, x);
  shape.insert(shape.begin() + axis, constant(1));
  return reshape(g, x, std::move(shape));
}

// As a contraction: the rows of v are its left side, and every row sees all columns of w.
ClassId matrix_product(EGraph& g, ClassId v, ClassId w) {
  const ClassId columns = transpose(g, w);  // [..., k, m]
  const int rank = rank_of(g, w);
  return contract(g, v, rank == 2 ? columns : unsqueeze(g, columns, rank - 2));
}

}  // namespace smelt::egraph
