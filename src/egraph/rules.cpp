#include "egraph/rules.h"

#include <algorithm>

#include "egraph/terms.h"

namespace smelt::egraph {
namespace {

const Pat x = any(0), y = any(1), w = any(2), v = any(3), i = any(4);

using Classes = std::vector<ClassId>;

Shape leading(const Shape& shape, size_t without) { return {shape.begin(), shape.end() - without}; }

// --- one side shared

// A matrix of the model, or chosen ones of a stack. Only these are put side by side: pieces of a matrix would only be
// put together again.
bool is_whole(const EGraph& g, ClassId w) {
  if (g.node_of(w, EOp::Weight)) return true;
  for (const ENode& node : g.at(w).nodes)
    if (node.op == eop(Op::Gather) && g.node_of(ChoiceView(node).from, EOp::Weight)) return true;
  return false;
}

// The matrices that w has below each other; w itself if it is whole; none otherwise.
Classes parts_of(const EGraph& g, ClassId w) {
  if (is_whole(g, w)) return {w};
  const ENode* node = g.node_of(w, EOp::Concat);
  if (!node || axis_of(*node) != rank_of(g, w) - 2) return {};
  Classes parts;
  for (ClassId part : node->src) parts.push_back(g.find(part));
  return parts;
}

// w x and v x are the first and the last rows of (w over v) x. Parts in the order of their ids, so that a set of
// matrices is put together in one way only.
Classes side_by_side(EGraph& g, const Match& m) {
  Classes parts = parts_of(g, m[w]);
  const Shape upper = shape_of(g, m[w]), lower = shape_of(g, m[v]);
  if (parts.empty() || !is_whole(g, m[v]) || parts.back() >= m[v] || leading(upper, 2) != leading(lower, 2) ||
      !size_of(g, m[w], -2) || !size_of(g, m[v], -2))
    return {};
  parts.push_back(m[v]);
  const ClassId both = contract(g, m[x], concat(g, parts, rank_of(g, m[w]) - 2));
  const int rows = rank_of(g, both) - 1;
  return {shrink(g, both, rows, 0, upper[upper.size() - 2]),
          shrink(g, both, rows, *size_of(g, m[w], -2), lower[lower.size() - 2])};
}

// Two inputs of one matrix: the rows of one input. As above, only inputs that are no such rows themselves.
Classes stacked(EGraph& g, const Match& m) {
  auto is_piece = [&](ClassId c) { return g.node_of(c, EOp::Concat) || g.node_of(c, eop(Op::Shrink)); };
  if (m[x] >= m[y] || is_piece(m[x]) || is_piece(m[y]) || rank_of(g, m[x]) != 2 || rank_of(g, m[y]) != 2 ||
      rank_of(g, m[w]) != 2 || !size_of(g, m[x], 0) || !size_of(g, m[y], 0))
    return {};
  const ClassId both = contract(g, concat(g, {m[x], m[y]}, 0), m[w]);
  return {shrink(g, both, 0, 0, shape_of(g, m[x])[0]), shrink(g, both, 0, *size_of(g, m[x], 0), shape_of(g, m[y])[0])};
}

// --- products of maps: (v w) x = v (w x)

Classes fold(EGraph& g, const Match& m) {
  if (!broadcast(leading(shape_of(g, m[v]), 2), leading(shape_of(g, m[w]), 2))) return {};
  return {contract(g, m[x], matrix_product(g, m[v], m[w]))};
}

// contract(v, u) is v w for u the transpose of w with an axis of 1 for v's rows (see matrix_product).
Classes unfold(EGraph& g, const Match& m) {
  const ClassId u = m[w];
  const int rank = rank_of(g, u);
  if (rank_of(g, m[v]) < 2 || (rank > 2 && size_of(g, u, -3) != 1)) return {};
  Shape narrow = shape_of(g, u);
  if (rank > 2) narrow.erase(narrow.end() - 3);
  const ClassId matrix = transpose(g, reshape(g, u, narrow));  // [..., m, k]
  if (!broadcast(leading(shape_of(g, m[x]), 1), leading(shape_of(g, matrix), 2))) return {};
  const ClassId inner = contract(g, m[x], matrix);
  if (!broadcast(leading(shape_of(g, inner), 1), leading(shape_of(g, m[v]), 2))) return {};
  return {contract(g, inner, m[v])};
}

// A weighted sum of w c_s over positions s is w times that of the c_s: attention needs no values for each position,
// only latents. Scores [..., S, 1] repeated, c [..., S, k], w [..., 1, n, k] or [n, k].
Classes sum_then_multiply(EGraph& g, const Match& m) {
  const ENode &sum = m.node(0), &scores = m.node(1);
  const auto rank = static_cast<int>(scores.shape.size());
  Shape narrow = shape_of(g, m[w]);
  if (rank < 2 || reduced_axes(sum) != std::vector<int64_t>{rank - 2} || !is_const(shape_of(g, m[x]).back(), 1) ||
      rank_of(g, m[y]) < 2 || (narrow.size() > 2 && !is_const(narrow[narrow.size() - 3], 1)))
    return {};
  if (narrow.size() > 2) narrow.erase(narrow.end() - 3);
  Shape wide = leading(scores.shape, 1), inputs = shape_of(g, m[y]);
  wide.push_back(inputs.back());
  if (broadcast(inputs, wide) != wide) return {};
  inputs.insert(inputs.begin(), wide.size() - inputs.size(), constant(1));
  const ClassId average = softmax_sum(g, expand(g, m[x], wide), expand(g, reshape(g, m[y], inputs), wide), rank - 2);
  const ClassId matrix = reshape(g, m[w], narrow);
  if (!broadcast(leading(shape_of(g, average), 1), leading(narrow, 2))) return {};
  return {contract(g, average, matrix)};
}

// --- blocks of rows and columns

// Some of the rows of w x: those rows of w.
Classes slice_of_rows(EGraph& g, const Match& m) {
  const ENode& slice = m.node(0);
  const int last = static_cast<int>(slice.shape.size()) - 1;
  const bool rows_only = leading(slice.shape, 1) == leading(m.node(1).shape, 1);
  if (!rows_only) return {};
  const int rows = rank_of(g, m[w]) - 2;
  return {contract(g, m[x], shrink(g, m[w], rows, begins_of(slice)[static_cast<size_t>(last)], slice.shape.back()))};
}

// The rows of w as a stack of smaller matrices: [..., a b] as [..., a, b].
Classes split_of_rows(EGraph& g, const Match& m) {
  const Shape &split = m.node(0).shape, &joined = m.node(1).shape;
  if (split.size() != joined.size() + 1 || leading(split, 2) != leading(joined, 1) || is_const(split.back(), 1) ||
      is_const(split[split.size() - 2], 1))
    return {};
  Shape stack = leading(shape_of(g, m[w]), 2);
  stack.insert(stack.end(), {split[split.size() - 2], split.back(), shape_of(g, m[w]).back()});
  return {contract(g, unsqueeze(g, m[x], rank_of(g, m[x]) - 1), reshape(g, m[w], stack))};
}

// The sum over k in two: over each of its blocks, then over the blocks. x [..., a, b], w [n, a b].
Classes split_of_sum(EGraph& g, const Match& m) {
  const Shape &split = shape_of(g, m[x]), &joined = m.node(0).shape, &matrix = shape_of(g, m[w]);
  if (split.size() != joined.size() + 1 || leading(split, 2) != leading(joined, 1) || matrix.size() != 2) return {};
  const Ref a = split[split.size() - 2], b = split.back();
  const ClassId blocks = permute(g, reshape(g, m[w], {matrix[0], a, b}), {1, 0, 2});
  const ClassId by_block = contract(g, m[x], blocks);  // [..., a, n]
  return {reduce_sum(g, by_block, rank_of(g, by_block) - 2)};
}

// And back: x [..., a, b], w [a, n, b].
Classes joined_sum(EGraph& g, const Match& m) {
  const ENode& sum = m.node(0);
  const Shape &split = shape_of(g, m[x]), &blocks = shape_of(g, m[w]), &terms = m.node(1).shape;
  const auto a = size_of(g, m[w], 0), b = size_of(g, m[w], -1);
  if (reduced_axes(sum) != std::vector<int64_t>{static_cast<int64_t>(terms.size()) - 2} || blocks.size() != 3 ||
      split.size() < 2 || split[split.size() - 2] != blocks[0] || !a || !b)
    return {};
  Shape joined = leading(split, 2);
  joined.push_back(constant(*a * *b));
  const ClassId matrix = reshape(g, permute(g, m[w], {1, 0, 2}), {blocks[1], joined.back()});
  return {contract(g, reshape(g, m[x], joined), matrix)};
}

// --- choice among matrices: x [..., 1, k], w [E, n, k], i [..., K]

bool is_choice(const EGraph& g, ClassId x, ClassId w, ClassId i) {
  const Shape &input = shape_of(g, x), &choice = shape_of(g, i);
  return rank_of(g, w) == 3 && !choice.empty() && input.size() == choice.size() + 1 &&
         is_const(input[input.size() - 2], 1) && leading(input, 2) == leading(choice, 1);
}

Classes choose_after(EGraph& g, const Match& m) {
  if (!is_choice(g, m[x], m[w], m[i])) return {};
  return {select(g, contract(g, m[x], m[w]), m[i])};
}
Classes choose_before(EGraph& g, const Match& m) {
  if (!is_choice(g, m[x], m[w], m[i])) return {};
  return {contract(g, m[x], gather(g, m[w], m[i]))};
}

// Only matrices: vectors and indices are not worth a thought.
Classes copy_first(EGraph& g, const Match& m) {
  if (!g.facts(m[w]).is_constant || rank_of(g, m[w]) < 3) return {};
  return {gathered_copy(g, m[w], m[i])};
}
Classes read_in_place(EGraph& g, const Match& m) { return {gather(g, m[w], m[i])}; }

// Chosen by the same indices, then put together: put together, then chosen.
Classes concat_then_choose(EGraph& g, const Match& m) {
  const ENode& both = m.node(0);
  if (g.find(both.src.front()) != m.root(1)) return {};
  Classes matrices;
  for (ClassId part : both.src)
    for (const ENode& node : g.at(part).nodes)
      if (node.op == eop(Op::Gather) && g.find(ChoiceView(node).index) == m[i]) {
        matrices.push_back(g.find(ChoiceView(node).from));
        break;
      }
  const int axis = static_cast<int>(axis_of(both)) - rank_of(g, m[i]) + 1;
  if (axis < 1 || matrices.size() != both.src.size()) return {};
  return {gather(g, concat(g, matrices, axis), m[i]), m.root(1)};
}

// --- movement of movement

Classes reshape_of_reshape(EGraph& g, const Match& m) { return {reshape(g, m[x], m.node(0).shape)}; }

Classes permute_of_permute(EGraph& g, const Match& m) {
  std::vector<int64_t> axes;
  for (int64_t a : permutation_of(m.node(0))) axes.push_back(permutation_of(m.node(1))[static_cast<size_t>(a)]);
  return {permute(g, m[x], axes)};
}

Classes slice_of_slice(EGraph& g, const Match& m) {
  ENode slice = m.node(0);
  for (size_t a = 0; a < slice.arg.list.size(); ++a) slice.arg.list[a] += begins_of(m.node(1))[a];
  slice.src = {m[x]};
  return {g.add(std::move(slice))};
}

// Of matrices put together: the one, or those next to each other, that the slice begins and ends with.
Classes slice_of_concat(EGraph& g, const Match& m) {
  const ENode &slice = m.node(0), &both = m.node(1);
  const auto axis = static_cast<size_t>(axis_of(both));
  const auto size = const_int(slice.shape[axis]);
  int64_t at = 0;
  Classes parts;
  for (ClassId part : both.src) {
    const int64_t begin = begins_of(slice)[axis], end = begin + size.value_or(-1);
    const int64_t next = at + *size_of(g, part, static_cast<int>(axis));
    if (at >= begin && next <= end) parts.push_back(part);
    at = next;
  }
  if (parts.empty()) return {};
  const ClassId run = concat(g, parts, static_cast<int>(axis));
  if (shape_of(g, run) != slice.shape) return {};
  return {run};
}

// Two neighbouring pieces put together again: one piece.
Classes concat_of_slices(EGraph& g, const Match& m) {
  const ENode &both = m.node(0), &first = m.node(1), &second = m.node(2);
  const auto axis = static_cast<size_t>(axis_of(both));
  std::vector<int64_t> next = begins_of(first);
  const auto size = const_int(first.shape[axis]);
  if (!size) return {};
  next[axis] += *size;
  if (next != begins_of(second)) return {};
  ENode piece = first;
  piece.shape = both.shape;
  piece.src = {m[x]};
  return {piece.shape == shape_of(g, m[x]) ? m[x] : g.add(std::move(piece))};
}

// What is made of weights alone is computed when the model is loaded: nothing is won there.
std::vector<Rule> of_activations(std::vector<Rule> rules) {
  for (Rule& rule : rules)
    rule.right = [right = std::move(rule.right)](EGraph& g, const Match& m) {
      return g.facts(m.root(0)).is_constant ? Classes{} : right(g, m);
    };
  return rules;
}

}  // namespace

const std::vector<Rule>& linear_rules() {
  const auto softmax_sum = [](Pat values) {
    return op(Op::SoftmaxSum, {op(Op::Expand, {x}).as(1), std::move(values)}).as(0);
  };
  static const std::vector<Rule> rules = of_activations({
      {"side-by-side", {contract(x, w), contract(x, v)}, side_by_side},
      {"stacked", {contract(x, w), contract(y, w)}, stacked},
      {"fold", {contract(contract(x, w), v)}, fold},
      {"unfold", {contract(x, contract(v, w))}, unfold},
      {"sum-then-multiply", {softmax_sum(contract(y, w))}, sum_then_multiply},
      {"repeated-sum-then-multiply", {softmax_sum(op(Op::Expand, {contract(y, w)}))}, sum_then_multiply},
      {"slice-of-rows", {op(Op::Shrink, {contract(x, w).as(1)}).as(0)}, slice_of_rows},
      {"split-of-rows", {op(Op::Reshape, {contract(x, w).as(1)}).as(0)}, split_of_rows},
      {"split-of-sum", {contract(op(Op::Reshape, {x}).as(0), w)}, split_of_sum},
      {"joined-sum", {op(Op::ReduceSum, {contract(x, w).as(1)}).as(0)}, joined_sum},
  });
  return rules;
}

const std::vector<Rule>& choice_rules() {
  static const Pat gathered = op(Op::Gather, {w, i});
  static const std::vector<Rule> rules{
      {"choose-after", {contract(x, gathered)}, choose_after},
      {"choose-before", {op(EOp::Select, {contract(x, w), i})}, choose_before},
      {"copy-first", {gathered}, copy_first},
      {"read-in-place", {op(EOp::GatheredCopy, {w, i})}, read_in_place},
      {"concat-then-choose", {op(EOp::Concat, {}).as(0), gathered}, concat_then_choose},
  };
  return rules;
}

const std::vector<Rule>& movement_rules() {
  static const std::vector<Rule> rules{
      {"reshape-of-reshape", {op(Op::Reshape, {op(Op::Reshape, {x})}).as(0)}, reshape_of_reshape},
      {"permute-of-permute", {op(Op::Permute, {op(Op::Permute, {x}).as(1)}).as(0)}, permute_of_permute},
      {"slice-of-slice", {op(Op::Shrink, {op(Op::Shrink, {x}).as(1)}).as(0)}, slice_of_slice},
      {"slice-of-concat", {op(Op::Shrink, {op(EOp::Concat, {}).as(1)}).as(0)}, slice_of_concat},
      {"concat-of-slices",
       {op(EOp::Concat, {op(Op::Shrink, {x}).as(1), op(Op::Shrink, {x}).as(2)}).as(0)},
       concat_of_slices},
  };
  return rules;
}

std::vector<Rule> all_rules() {
  std::vector<Rule> rules = linear_rules();
  for (const auto* more : {&choice_rules(), &movement_rules()}) rules.insert(rules.end(), more->begin(), more->end());
  return rules;
}

}  // namespace smelt::egraph
