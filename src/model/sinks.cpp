#include "model/sinks.h"

#include "graph/node.h"

namespace smelt {
namespace {

// The sum of exp(score - max score) over the last axis but one: what averages are divided by.
Tensor sum_of_weights(Tensor score) {
  const int axis = score.rank() - 2;
  const std::vector<Dim> one(static_cast<size_t>(score.rank()), Dim(1));
  const Tensor ones = expand(reshape(scalar(1), one), {score.shape().begin(), score.shape().end()});
  Shape shape = score.shape();
  shape.erase(shape.begin() + axis);
  return Tensor(make(Op::SoftmaxSum, score.dtype(), {score.ref(), ones.ref()}, {.list = {axis}}, std::move(shape)));
}

}  // namespace

Tensor with_sinks(Tensor average, Tensor score, Tensor sink) {
  const Tensor scores = unsqueeze(score, score.rank());  // as averages over rows of values have them
  // Of heads that have a sink, see Block::heads_computed().
  const int axis = score.rank() - 2;
  const auto of_heads = [&](Tensor x) { return slice(x, axis, 0, sink.dim(axis)); };
  const Tensor total = of_heads(sum_of_weights(scores)), top = of_heads(max(scores, score.rank() - 1));  // [..., 1]
  // Where the sink is far above all scores the exponential is infinite and the share 0, as it should be.
  return of_heads(average) * (total / (total + exp(sink - top)));
}

}  // namespace smelt
