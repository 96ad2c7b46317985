#include "schedule/split_reduce.h"

#include <algorithm>

#include "base/ensure.h"
#include "graph/args.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/tensor.h"

namespace smelt {
namespace {

struct Chunks {
  Ref count;      // symbolic
  int64_t chunk;  // elements each
};

// Of an axis of a tensor. `most`: positions of a chunk where rows are few, 0 if that is left to the graph; many rows
// have tasks enough, and go over the chunks.
std::optional<Chunks> chunks_of(Ref tensor, int axis, int64_t most) {
  const Ref length = tensor->shape[static_cast<size_t>(axis)];
  if (length->op != Op::Mul) return std::nullopt;
  const auto [count, size] = BinaryView(length);
  const auto chunk = const_int(size);
  if (!chunk || const_int(count)) return std::nullopt;
  const auto rows = std::span(tensor->shape).first(static_cast<size_t>(axis));
  const bool are_few = std::all_of(rows.begin(), rows.end(), [](Ref n) { return const_int(n).has_value(); });
  if (!are_few || most == 0 || most >= *chunk || *chunk % most != 0) return Chunks{count, *chunk};
  return Chunks{simplify(count * (*chunk / most)), most};
}

// [.., chunks * n, ..] seen as [.., chunks, n, ..].
Tensor divide_axis(Tensor x, int axis, const Chunks& c) {
  std::vector<Dim> dims(x.shape().begin(), x.shape().end());
  dims[axis] = c.count;
  dims.insert(dims.begin() + axis + 1, Dim(c.chunk));
  return reshape(x, dims);
}

Tensor reduce_like(Ref like, Refs values, int axis) {
  Shape shape = values.front()->shape;
  shape.erase(shape.begin() + axis);
  return Tensor(make(like->op, like->dtype, std::move(values), {.i = like->arg.i, .list = {axis}}, std::move(shape)));
}

// A tensor of ones: what a denominator sums.
bool is_one(Tensor x) {
  Ref n = x.ref();
  while (is_move(n->op)) n = operand_of(n);
  return n->op == Op::Const && n->arg.f == 1;
}

// The score without the axes along which it was only repeated (size 1 there), so that its maximum is stored once.
Tensor unexpanded(Tensor x) { return x.ref()->op == Op::Expand ? Tensor(operand_of(x.ref())) : x; }

void add_once(Refs& list, Ref x) {
  if (!contains(list, x)) list.push_back(x);
}

// The tile of these scores: several sums are made with the same weights.
TileTensors& tile_of(Ref scores, int axis, const Chunks& c, SplitGraph& out) {
  for (TileTensors& tile : out.tiles)
    if (tile.inner.front() == scores) return tile;
  return out.tiles.emplace_back(
      TileTensors{.axis = axis, .chunk = c.chunk, .inner = {scores}, .rows = {}, .results = {}, .sums = {}});
}

// Collects TileTensors::rows of scores: what is below their sums, not what those were made of.
class RowsBelow {
 public:
  RowsBelow(Ref score, int axis) : leading_(score->shape.begin(), score->shape.begin() + axis) { visit(score, 0); }
  const Refs& found() const { return found_; }

 private:
  void visit(Ref n, int sums) {
    if (is_reduce(n->op)) ++sums;
    const bool is_made_before = n->op == Op::Write || class_of(n->op) == OpClass::leaf || sums > 1;
    if (is_made_before || !seen_.insert(n.get()).second) return;
    if (n->op == Op::Place) {
      const bool has_rows = n->shape.size() == leading_.size() + 1 &&
                            std::equal(leading_.begin(), leading_.end(), n->shape.begin()) &&
                            const_int(n->shape.back());
      if (n->dtype == DType::BF16 && has_rows) found_.push_back(n);
      return;
    }
    for (Ref s : n->src) visit(s, sums);
  }

  const Refs leading_;
  std::unordered_set<const Node*> seen_;
  Refs found_;
};

// Whether the scores are sums of products, worth keeping in a tile: others are cheaper recomputed.
bool is_made_of_sums(Ref score) {
  if (score->op == Op::ReduceSum) return true;
  if (is_reduce(score->op) || score->op == Op::Place || class_of(score->op) == OpClass::leaf) return false;
  if (score->op == Op::Gather) return is_made_of_sums(GatherView(score).rows);
  return std::any_of(score->src.begin(), score->src.end(), is_made_of_sums);
}

bool is_known_behind(Tensor x, int axis) {
  const auto& shape = x.shape();
  return std::all_of(shape.begin() + axis + 1, shape.end(), [](Ref d) { return const_int(d).has_value(); });
}

bool makes_tile_of(Tensor score, int axis, const Chunks& c) {
  return c.chunk % kLimitStep == 0 && is_made_of_sums(score.ref()) && is_known_behind(score, axis);
}

bool makes_tile(Ref node, int axis, const Chunks& c) {
  const auto [score, value] = SoftmaxView(node);
  return makes_tile_of(unexpanded(Tensor(score)), axis, c) && is_known_behind(Tensor(value), axis);
}

std::unordered_set<const Node*> scores_of_softmaxes(Ref root) {
  std::unordered_set<const Node*> scores;
  for (Ref n : toposort(root))
    if (n->op == Op::SoftmaxSum) scores.insert(unexpanded(Tensor(SoftmaxView(n).score)).ref().get());
  return scores;
}

// Chunk by chunk an online softmax, and the maximum of its scores.
Ref split_online(Ref node, int axis, const Chunks& c, SplitGraph& out) {
  const SoftmaxView softmax(node);
  const Tensor score = divide_axis(Tensor(softmax.score), axis, c);
  const Tensor value = divide_axis(Tensor(softmax.value), axis, c);
  const Tensor top = max(divide_axis(unexpanded(Tensor(softmax.score)), axis, c), axis + 1);
  const Tensor part = reduce_like(node, {score.ref(), value.ref()}, axis + 1);
  out.partials.insert(top.ref().get());
  out.partials.insert(part.ref().get());
  const Tensor wide = expand(top, {part.shape().begin(), part.shape().end()});
  return reduce_like(node, {wide.ref(), part.ref()}, axis).ref();
}

// The sum of weight * value, and the tensors that a tile keeps on chip for it.
struct WeightedSum {
  Tensor sum;
  Refs inner;
};

struct ScaledBytes {
  Tensor bytes, scale;
};

ScaledBytes scaled_bytes(Ref value, int axis, const Chunks& c) {
  const auto [floats, scale] = BinaryView(value);
  ENSURE(floats->op == Op::Cast, "values of bytes are a product of a cast and a scale");
  return {divide_axis(Tensor(operand_of(floats)), axis, c), divide_axis(unexpanded(Tensor(scale)), axis, c)};
}

constexpr double kMostSteps = 255;

// Values are q * scale with bytes q. Each weight times its scale becomes one of 255 steps up to the greatest of the
// chunk, and the products those of bytes:
//   y = weight * scale,  step = max(y) / 255,  sum = step * sum(round(y / step) * q)
// The error is at most step / 2 * sum |q|.
WeightedSum sum_of_bytes(Tensor weight, Ref value, int axis, const Chunks& c) {
  const auto [bytes, scale] = scaled_bytes(value, axis, c);
  const Tensor y = weight * scale;
  const Tensor step = max(y, axis + 1) * (1.0 / kMostSteps);
  const Tensor inverse = where(less(scalar(0), step), scalar(1) / maximum(step, scalar(1e-30)), scalar(0));
  const Tensor q = cast(floor(y * unsqueeze(inverse, axis + 1) + 0.5), DType::U8);
  const auto i32 = [](Tensor x) { return cast(x, DType::I32); };
  const Tensor products = sum(i32(q) * i32(bytes), axis + 1);
  return {cast(products, DType::F32) * step, {weight.ref(), step.ref(), q.ref()}};
}

// The same in bf16, which holds each byte.
WeightedSum sum_of_halves(Tensor weight, Ref value, int axis, const Chunks& c) {
  const ScaledBytes of = scaled_bytes(value, axis, c);
  const auto f32 = [](Tensor x) { return cast(x, DType::F32); };
  const Tensor q = cast(weight * of.scale, DType::BF16);
  return {sum(f32(q) * f32(cast(of.bytes, DType::BF16)), axis + 1), {q.ref()}};
}

// Weights are kept, but not beside the halves that they become: exponentials are made again for the denominator.

WeightedSum weighted_sum(Tensor weight, Ref node, int axis, const Chunks& c) {
  const Ref values = SoftmaxView(node).value;
  const bool is_denominator = is_one(Tensor(values)), keeps_weight = node->arg.i != kHalvesTimesScale;
  const Refs kept = keeps_weight ? Refs{weight.ref()} : Refs{};
  if (is_denominator) return {sum(weight, axis + 1), kept};
  if (node->arg.i == kBytesTimesScale) return sum_of_bytes(weight, values, axis, c);
  if (node->arg.i == kHalvesTimesScale) return sum_of_halves(weight, values, axis, c);
  return {sum(weight * divide_axis(Tensor(values), axis, c), axis + 1), kept};
}

Ref split_softmax(Ref node, int axis, const Chunks& c, SplitGraph& out) {
  if (!makes_tile(node, axis, c)) return split_online(node, axis, c, out);
  const Tensor score = divide_axis(unexpanded(Tensor(SoftmaxView(node).score)), axis, c);
  const Tensor top = max(score, axis + 1);
  const Tensor weight = exp(score - unsqueeze(top, axis + 1));
  const WeightedSum weighted = weighted_sum(weight, node, axis, c);
  const Tensor part = weighted.sum;
  const Tensor kept = place(top);  // the tile reads its own copy
  TileTensors& tile = tile_of(score.ref(), axis, c, out);
  const RowsBelow rows(score.ref(), axis);
  for (Ref n : rows.found()) add_once(tile.rows, n);
  add_once(tile.inner, top.ref());
  for (Ref inner : weighted.inner) add_once(tile.inner, inner);
  for (Tensor partial : {kept, part}) {
    out.partials.insert(partial.ref().get());
    add_once(tile.results, partial.ref());
  }
  const Tensor wide = expand(kept, {part.shape().begin(), part.shape().end()});
  const Ref all = reduce_like(node, {wide.ref(), part.ref()}, axis).ref();
  add_once(tile.sums, all);
  return all;
}

// The greatest score of a softmax, that of each chunk being what its tile keeps anyway.
Ref split_maximum(Ref node, int axis, const Chunks& c, SplitGraph& out) {
  const Tensor score = divide_axis(Tensor(operand_of(node)), axis, c);
  const Tensor top = max(score, axis + 1), kept = place(top);
  TileTensors& tile = tile_of(score.ref(), axis, c, out);
  add_once(tile.inner, top.ref());
  out.partials.insert(kept.ref().get());
  add_once(tile.results, kept.ref());
  const Ref all = reduce_like(node, {kept.ref()}, axis).ref();
  add_once(tile.sums, all);
  return all;
}

Ref split_plain(Ref node, int axis, const Chunks& c, SplitGraph& out) {
  const Tensor part = reduce_like(node, {divide_axis(Tensor(operand_of(node)), axis, c).ref()}, axis + 1);
  out.partials.insert(part.ref().get());
  return reduce_like(node, {part.ref()}, axis).ref();
}

}  // namespace

SplitGraph split_reduce(Ref root, const Machine& machine) {
  SplitGraph out;
  const std::unordered_set<const Node*> scores = scores_of_softmaxes(root);
  out.root = rebuild(root, [&](Ref original, Ref node) {
    if (!is_reduce(node->op) || node->op == Op::TopK) return node;
    const int axis = static_cast<int>(reduced_axes(node)[0]);
    const auto c = chunks_of(reduced_tensor(node), axis, machine.chunk_positions);
    if (!c) return node;
    std::optional<AtLine> at;  // what takes its place comes from the same line
    if (const auto line = line_of(original)) at.emplace(*line);
    if (node->op == Op::SoftmaxSum) return split_softmax(node, axis, *c, out);
    const bool is_of_tile = node->op == Op::ReduceMax && scores.contains(operand_of(original).get()) &&
                            makes_tile_of(Tensor(operand_of(node)), axis, *c);
    return is_of_tile ? split_maximum(node, axis, *c, out) : split_plain(node, axis, *c, out);
  });
  return out;
}

}  // namespace smelt
