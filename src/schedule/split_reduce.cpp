#include "schedule/split_reduce.h"

#include <unordered_map>

#include "graph/tensor.h"

namespace smelt {
namespace {

struct Chunks {
  Ref count;      // symbolic
  int64_t chunk;  // elements each
};

std::optional<Chunks> chunks_of(Ref length) {
  if (length->op != Op::Mul) return std::nullopt;
  const auto chunk = const_int(length->src[1]);
  if (!chunk || const_int(length->src[0])) return std::nullopt;
  return Chunks{length->src[0], *chunk};
}

// [.., chunks * n, ..] seen as [.., chunks, n, ..].
Tensor divide_axis(Tensor x, int axis, const Chunks& c) {
  std::vector<Dim> dims(x.shape().begin(), x.shape().end());
  dims[axis] = c.count;
  dims.insert(dims.begin() + axis + 1, Dim(c.chunk));
  return reshape(x, dims);
}

Tensor reduce_like(Ref like, Refs src, int axis) {
  Shape shape = src[0]->shape;
  shape.erase(shape.begin() + axis);
  return Tensor(make(like->op, like->dtype, std::move(src), {.i = like->arg.i, .list = {axis}},
                     std::move(shape)));
}

// The score without the axes along which it was only repeated (size 1 there), so that its maximum is stored once.
Tensor unexpanded(Tensor x) { return x.ref()->op == Op::Expand ? Tensor(x.ref()->src[0]) : x; }

Ref split_softmax(Ref node, int axis, const Chunks& c, SplitGraph& out) {
  const Tensor score = divide_axis(Tensor(node->src[0]), axis, c);
  const Tensor value = divide_axis(Tensor(node->src[1]), axis, c);
  const Tensor narrow = divide_axis(unexpanded(Tensor(node->src[0])), axis, c);
  const Tensor top = max(narrow, axis + 1);
  const Tensor part = reduce_like(node, {score.ref(), value.ref()}, axis + 1);
  out.partials.insert(top.ref().get());
  out.partials.insert(part.ref().get());
  const Tensor wide = expand(top, {part.shape().begin(), part.shape().end()});
  return reduce_like(node, {wide.ref(), part.ref()}, axis).ref();
}

Ref split_plain(Ref node, int axis, const Chunks& c, SplitGraph& out) {
  const Tensor part =
      reduce_like(node, {divide_axis(Tensor(node->src[0]), axis, c).ref()}, axis + 1);
  out.partials.insert(part.ref().get());
  return reduce_like(node, {part.ref()}, axis).ref();
}

}  // namespace

SplitGraph split_reduce(Ref root) {
  SplitGraph out;
  out.root = rebuild(root, [&](Ref, Ref node) {
    if (!is_reduce(node->op) || node->op == Op::TopK) return node;
    const int axis = static_cast<int>(node->arg.list[0]);
    const auto c = chunks_of(node->src[0]->shape[axis]);
    if (!c) return node;
    return node->op == Op::SoftmaxSum ? split_softmax(node, axis, *c, out)
                                      : split_plain(node, axis, *c, out);
  });
  return out;
}

}  // namespace smelt
