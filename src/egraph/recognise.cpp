#include "egraph/recognise.h"

#include <algorithm>
#include <deque>
#include <unordered_set>

#include "egraph/terms.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"

namespace smelt::egraph {
namespace {

constexpr size_t kNodesToLookAt = 64;  // between a product and its left side

using NodeSet = std::unordered_set<const Node*>;

NodeSet depending_on(Ref leaf, const Refs& order) {
  NodeSet set{leaf.get()};
  for (Ref n : order)
    if (std::ranges::any_of(n->src, [&](Ref s) { return set.contains(s.get()); })) set.insert(n.get());
  return set;
}

// What enters the part of the graph between a weight and a sum that depends on it.
struct Cone {
  std::deque<Ref> entries;  // tensors that do not depend on the weight
  Ref chosen;               // the indices of a gather from the weight
};

Cone cone_of(Ref top, Ref weight, const NodeSet& depending) {
  Cone cone;
  NodeSet seen{top.get()};
  std::deque<Ref> todo{top};
  while (!todo.empty()) {
    const Ref n = todo.front();
    todo.pop_front();
    const bool gathers = n->op == Op::Gather && GatherView(n).rows == weight;
    if (gathers) cone.chosen = GatherView(n).numbers;
    for (Ref s : n->src)
      if (!(gathers && s == cone.chosen) && seen.insert(s.get()).second)
        (depending.contains(s.get()) ? todo : cone.entries).push_back(s);
  }
  return cone;
}

// At the entries and a little below them, nearest first.
struct Candidates {
  Refs floats;
  Refs rows;  // indices by which integers are gathered
};
Candidates candidates_of(const Cone& cone) {
  Candidates found;
  NodeSet seen;
  std::deque<Ref> todo = cone.entries;
  while (!todo.empty() && seen.size() < kNodesToLookAt) {
    const Ref n = todo.front();
    todo.pop_front();
    if (n->shape.empty() || !seen.insert(n.get()).second) continue;
    if (n->dtype == DType::F32) found.floats.push_back(n);
    if (n->op == Op::Gather && n->dtype == DType::I8) found.rows.push_back(GatherView(n).numbers);
    todo.insert(todo.end(), n->src.begin(), n->src.end());
  }
  return found;
}

Ref count(const Shape& shape) {
  Ref n = constant(1);
  for (Ref d : shape) n = n * d;
  return simplify(n);
}

// Views of x as the left side of a product [..., n] of inner size k: with the axes in front as they are in the result,
// and as if one of them had been broadcast. A reshape of a reshape is one node, so the view itself may not be in the
// graph.
std::vector<Tensor> left_sides(Tensor x, const Shape& result, int64_t k) {
  std::vector<Tensor> views;
  if (is_const(x.shape().back(), k)) views.push_back(x);
  std::vector<Dim> shape(result.begin(), result.end() - 1);
  shape.emplace_back(k);
  auto add = [&](const std::vector<Dim>& dims) {
    Shape as;
    for (const Dim& d : dims) as.push_back(d.ref);
    if (count(x.shape()) == count(as)) views.push_back(reshape(x, dims));
  };
  add(shape);
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    std::vector<Dim> narrow = shape;
    narrow[i] = 1;
    add(narrow);
  }
  return views;
}

// A left side of 8-bit integers: x is `of` quantised, or that with an axis of 1 more, or `rows` of it. The model
// writes all three (model/experts.cpp: the experts of a token, and tiles of tokens by expert).
struct QuantisedForm {
  Tensor of;
  Ref rows;
  Activations x;
};

std::vector<QuantisedForm> quantised_forms(Tensor x) {
  std::vector<QuantisedForm> forms{{x, {}, quantise_activations(x)}};
  for (int axis = 0; axis + 1 < x.rank(); ++axis) {
    if (!is_const(x.dim(axis), 1)) continue;
    const Tensor of = squeeze(x, axis);
    const Activations a = quantise_activations(of);
    if (a.q.ref()) forms.push_back({of, {}, {x, unsqueeze(a.q, axis), unsqueeze(a.scale, axis)}});
  }
  return forms;
}

std::optional<QuantisedForm> quantised_rows(Tensor x, Ref rows) {
  const Activations a = quantise_activations(x);
  if (!a.q.ref()) return std::nullopt;
  const Tensor r(rows);
  return QuantisedForm{x, rows, rows_of(a, r)};
}

Shape without_last(const Shape& shape) { return {shape.begin(), shape.end() - 1}; }

// The axes in front of the matrices that a weight holds, or of those chosen from it.
Shape matrices_of(const Shape& weight, Ref chosen) {
  if (!chosen) return {weight.begin(), weight.end() - 2};
  Shape shape = chosen->shape;
  shape.insert(shape.end(), weight.begin() + 1, weight.end() - 2);
  return shape;
}

class Recogniser {
 public:
  Recogniser(Ref root, const WeightTable& weights) : order_(toposort(root)), weights_(weights) {}

  Contractions run() {
    for (const auto& [slot, info] : weights_) products_of(slot, info);
    for (Ref n : order_)
      if (n->op == Op::ReduceSum && !found_.contains(n.get())) product_of_tensors(n);
    return std::move(found_);
  }

 private:
  void products_of(int64_t slot, const WeightInfo& info) {
    const NodeSet depending = depending_on(info.raw.ref(), order_);
    const Tensor values = dequantize(info.raw, info.type, info.layout);
    if (values.rank() < 2) return;
    NodeSet above;  // sums over a product that was found are no products of this weight
    for (Ref n : order_) {
      if (!depending.contains(n.get())) continue;
      const bool is_above = std::ranges::any_of(n->src, [&](Ref s) { return above.contains(s.get()); });
      if (is_above || (is_result(n, values) && product_of(n, slot, info, values, depending))) above.insert(n.get());
    }
  }

  static bool is_result(Ref n, Tensor values) {
    return n->op == Op::ReduceSum && n->dtype == DType::F32 && !n->shape.empty() && n->shape.back() == values.dim(-2);
  }

  bool product_of(Ref n, int64_t slot, const WeightInfo& info, Tensor values, const NodeSet& depending) {
    const Cone cone = cone_of(n, info.raw.ref(), depending);
    const Tensor raw = cone.chosen ? gather(info.raw, Tensor(cone.chosen)) : info.raw;
    const Shape front = matrices_of(values.shape(), cone.chosen);
    auto is_it = [&](const Activations& x) {
      return broadcast(front, without_last(x.x.shape())) == without_last(n->shape) &&
             product(x, raw, info.type, info.layout).ref() == n;
    };
    auto found = [&](Tensor x, const QuantisedForm& form) {
      found_[n.get()] = {x, form.of, form.rows, slot, cone.chosen, {}};
      return true;
    };
    const Candidates candidates = candidates_of(cone);
    for (Ref candidate : candidates.floats) {
      for (Tensor x : left_sides(Tensor(candidate), n->shape, values.size(-1))) {
        if (is_it({x, {}, {}})) return found(x, {});
        for (const QuantisedForm& form : quantised_forms(x))
          if (form.x.q.ref() && is_it(form.x)) return found(x, form);
      }
      if (!is_const(candidate->shape.back(), values.size(-1))) continue;
      for (Ref rows : candidates.rows) {
        const auto form = quantised_rows(Tensor(candidate), rows);
        if (form && is_it(form->x)) return found(form->x.x, *form);
      }
    }
    return false;
  }

  // sum over the last axis of x[..., 1, k] * w[..., n, k].
  void product_of_tensors(Ref n) {
    const Ref terms = operand_of(n);
    const auto axes = static_cast<int64_t>(terms->shape.size());
    if (axes < 2 || n->arg.list != std::vector<int64_t>{axes - 1} || terms->op != Op::Mul || n->dtype != DType::F32)
      return;
    const auto [first, second] = BinaryView(terms);
    for (const auto& [x, w] : {std::pair(first, second), std::pair(second, first)}) {
      if (x->op != Op::Expand || !is_const(operand_of(x)->shape[static_cast<size_t>(axes) - 2], 1) ||
          is_const(x->shape[static_cast<size_t>(axes) - 2], 1))
        continue;
      Shape narrow = operand_of(x)->shape;
      narrow.erase(narrow.end() - 2);
      const Tensor input = reshape(Tensor(operand_of(x)), {narrow.begin(), narrow.end()});
      const Tensor matrix(w->op == Op::Expand ? operand_of(w) : w);
      if (!is_const(matrix.dim(-2), 1) && sum(unsqueeze(input, input.rank() - 1) * matrix, -1).ref() == n) {
        found_.emplace(n.get(), Contraction{input, {}, {}, {}, {}, matrix});
        return;
      }
    }
  }

  Refs order_;
  const WeightTable& weights_;
  Contractions found_;
};

}  // namespace

Contractions contractions_of(Ref root, const WeightTable& weights) { return Recogniser(root, weights).run(); }

}  // namespace smelt::egraph
