#include "egraph/block_graph.h"

#include <functional>

#include "base/ensure.h"
#include "egraph/recognise.h"
#include "egraph/terms.h"
#include "graph/args.h"
#include "graph/rules_algebra.h"

namespace smelt::egraph {
namespace {

// --- in

class Adder {
 public:
  Adder(EGraph& g, const WeightTable& weights, Contractions contractions)
      : g_(g), weights_(weights), contractions_(std::move(contractions)) {
    for (const auto& [slot, info] : weights) {
      const Ref values = dequantize(info.raw, info.type, info.layout).ref();
      const ClassId w = done_[values.get()] = add_weight(slot, info);
      // A reshape of values is one of what they are a reshape of.
      if (values->op == Op::Reshape) done_[values->src[0].get()] = reshape(g_, w, values->src[0]->shape);
    }
  }

  ClassId add(Ref n) {
    if (auto it = done_.find(n.get()); it != done_.end()) return it->second;
    const auto it = contractions_.find(n.get());
    const ClassId id = it != contractions_.end() ? add_contraction(it->second) : add_node(n);
    return done_[n.get()] = id;
  }

 private:
  ClassId add_contraction(const Contraction& c) {
    const ClassId x = left_side(c);
    if (!c.slot) return contract(g_, x, add(c.w.ref()));
    const ClassId w = add_weight(*c.slot, weights_.at(*c.slot));
    return contract(g_, x, c.chosen ? gather(g_, w, add(c.chosen)) : w);
  }

  ClassId left_side(const Contraction& c) {
    if (!c.quantised.ref()) return add(c.x.ref());
    const ClassId integers = quantised(g_, add(c.quantised.ref()));
    return c.rows ? gather(g_, integers, add(c.rows)) : reshape(g_, integers, c.x.shape());
  }

  ClassId add_weight(int64_t slot, const WeightInfo& info) {
    return weight(g_, slot, info.raw.ref()->arg.name, dequantize(info.raw, info.type, info.layout).shape());
  }

  ClassId add_node(Ref n) {
    std::vector<ClassId> src;
    for (Ref s : n->src) src.push_back(add(s));
    return g_.add({eop(n->op), n->dtype, n->arg, n->shape, std::move(src)});
  }

  EGraph& g_;
  const WeightTable& weights_;
  Contractions contractions_;
  std::unordered_map<const Node*, ClassId> done_;
};

// --- out

std::vector<Dim> dims(const Shape& shape) { return {shape.begin(), shape.end()}; }

// x, then y, along the first axis: each is read inside its bounds everywhere.
Tensor concat_rows(Tensor x, Tensor y) {
  const int64_t first = x.size(0), second = y.size(0);
  const Tensor row = iota({first + second}, 0);
  const Tensor limit = scalar(double(first), DType::I64), zero = scalar(0, DType::I64);
  const Tensor of_x = gather(x, minimum(row, limit - 1.0)), of_y = gather(y, maximum(row - limit, zero));
  std::vector<Dim> column{first + second};
  for (int i = 1; i < x.rank(); ++i) column.emplace_back(1);
  return where(reshape(less(row, limit), column), of_x, of_y);
}

Tensor concatenated(std::vector<Tensor> parts, int axis) {
  std::vector<int> axes;
  for (int i = 0; i < parts[0].rank(); ++i) axes.push_back(i);
  std::swap(axes[0], axes[static_cast<size_t>(axis)]);  // its own inverse
  Tensor all = permute(parts[0], axes);
  for (size_t i = 1; i < parts.size(); ++i) all = concat_rows(all, permute(parts[i], axes));
  return permute(all, axes);
}

// y [..., E, n], rows [..., K]: a gather from all y's rows, each choice moved to its place.
Tensor selected(Tensor y, Tensor rows) {
  const int axis = rows.rank() - 1;  // of E and K
  Dim places = 1;
  for (int i = 0; i < axis; ++i) places = Dim(simplify(places.ref * y.dim(i)));
  const int64_t experts = y.size(axis), chosen = rows.size(-1);
  const Tensor index = iota({places, chosen}, 0) * double(experts) + cast(reshape(rows, {places, chosen}), DType::I64);
  const Tensor flat = reshape(y, {simplify(places.ref * experts), y.dim(-1)});
  Shape shape = rows.shape();
  shape.push_back(y.dim(-1));
  return reshape(gather(flat, index), dims(shape));
}

class Builder {
 public:
  Builder(const EGraph& g, const Choice& choice, const WeightTable& weights)
      : g_(g), choice_(choice), weights_(weights) {}

  Ref build(ClassId id) {
    id = g_.find(id);
    if (auto it = done_.find(id); it != done_.end()) return it->second;
    return done_[id] = compute(chosen(id));
  }

 private:
  const ENode& chosen(ClassId id) const {
    const auto it = choice_.find(g_.find(id));
    return g_.at(id).nodes[it == choice_.end() ? 0 : it->second];
  }

  Tensor tensor(ClassId id) { return Tensor(build(id)); }

  Ref compute(const ENode& node) {
    if (is_tensor_op(node.op)) {
      Refs src;
      for (ClassId s : node.src) src.push_back(build(s));
      if (node.op == eop(Op::Reshape)) return smelt::reshape(Tensor(src[0]), dims(node.shape)).ref();
      return make(tensor_op(node.op), node.dtype, std::move(src), node.arg, node.shape);
    }
    switch (node.op) {
      case EOp::Weight: {
        const WeightInfo& info = weights_.at(slot_of(node));
        return dequantize(info.raw, info.type, info.layout).ref();
      }
      case EOp::Contract: return contraction(ContractView(node).x, ContractView(node).w).ref();
      case EOp::Concat: {
        std::vector<Tensor> parts;
        for (ClassId s : node.src) parts.push_back(tensor(s));
        return concatenated(std::move(parts), static_cast<int>(axis_of(node))).ref();
      }
      case EOp::Select: return selected(tensor(ChoiceView(node).from), tensor(ChoiceView(node).index)).ref();
      case EOp::GatheredCopy: return place(gather(tensor(ChoiceView(node).from), tensor(ChoiceView(node).index))).ref();
      case EOp::Quantised: return rounded(tensor(source_of(node))).ref();
    }
    ENSURE(false, "no such op");
  }

  // The values that 8-bit activations stand for.
  static Tensor rounded(Tensor x) {
    const Activations a = quantise_activations(x);
    if (!a.q.ref()) return x;
    std::vector<Dim> blocks = dims(x.shape());
    blocks.back() = Dim(x.size(-1) / activation_block(x.size(-1)));
    blocks.emplace_back(activation_block(x.size(-1)));
    const Tensor values = reshape(cast(a.q, DType::F32), blocks);
    return reshape(values * unsqueeze(a.scale, a.scale.rank()), dims(x.shape()));
  }

  // By the product of its format where the right side is a weight or chosen from one; part by part where it is several.
  Tensor contraction(ClassId x, ClassId w) {
    const ENode& matrix = chosen(w);
    if (matrix.op == EOp::Weight) return product_with(x, weights_.at(slot_of(matrix)), {});
    if (matrix.op == eop(Op::Gather))
      if (const ENode& stack = chosen(ChoiceView(matrix).from); stack.op == EOp::Weight)
        return product_with(x, weights_.at(slot_of(stack)), build(ChoiceView(matrix).index));
    if (matrix.op == EOp::Concat && axis_of(matrix) == rank_of(g_, w) - 2) {
      std::vector<Tensor> parts;
      for (ClassId part : matrix.src) parts.push_back(contraction(x, part));
      return concatenated(parts, parts[0].rank() - 1);
    }
    const Tensor left = tensor(x);
    return sum(unsqueeze(left, left.rank() - 1) * tensor(w), -1);
  }

  Tensor product_with(ClassId x, const WeightInfo& info, Ref chosen_rows) {
    const Tensor raw = chosen_rows ? gather(info.raw, Tensor(chosen_rows)) : info.raw;
    return product(left_side(x), raw, info.type, info.layout);
  }

  // Of integers where x is quantised, or a view or rows of what is.
  Activations left_side(ClassId x) {
    const ENode& node = chosen(x);
    if (node.op == EOp::Quantised) return quantise_activations(tensor(source_of(node)));
    const bool is_view = node.op == eop(Op::Reshape) && node.shape.back() == shape_of(g_, source_of(node)).back();
    const bool is_gather = node.op == eop(Op::Gather) && rank_of(g_, source_of(node)) > 1;
    const Activations a = is_view || is_gather ? left_side(source_of(node)) : Activations{};
    if (!a.q.ref()) return {tensor(x), {}, {}};
    if (is_gather) return rows_of(a, tensor(ChoiceView(node).index));
    std::vector<Dim> shape = dims(node.shape), scales = shape;
    scales.back() = a.scale.dim(-1);
    return {reshape(a.x, shape), reshape(a.q, shape), reshape(a.scale, scales)};
  }

  const EGraph& g_;
  const Choice& choice_;
  const WeightTable& weights_;
  std::unordered_map<ClassId, Ref> done_;
};

}  // namespace

WeightTable weights_of(const Segment& segment, const GgufFile& file, const std::string& prefix) {
  std::map<int64_t, Ref> params;
  for (Ref n : toposort(segment.root))
    if (n->op == Op::Param) params[slot_of(n)] = n;
  WeightTable table;
  for (size_t slot = 0; slot < segment.slots.size(); ++slot) {
    const SlotBinding& binding = segment.slots[slot];
    const auto it = params.find(static_cast<int64_t>(slot));
    if (binding.kind != Bound::Weight || it == params.end()) continue;
    const GgufTensor* tensor = file.find(prefix + binding.name);
    ENSURE(tensor, prefix + binding.name + " is not in the file of this segment");
    table[static_cast<int64_t>(slot)] = {Tensor(it->second), tensor->type, binding.layout};
  }
  return table;
}

ClassId add_graph(EGraph& g, Ref root, const WeightTable& weights) {
  return Adder(g, weights, contractions_of(root, weights)).add(root);
}

Ref to_graph(const EGraph& g, ClassId root, const Choice& choice, const WeightTable& weights) {
  return Builder(g, choice, weights).build(root);
}

std::map<int64_t, double> bytes_of(const WeightTable& weights) {
  std::map<int64_t, double> bytes;
  for (const auto& [slot, info] : weights) {
    const GgufTypeInfo& type = info_of(info.type);
    bytes[slot] = double(type.bytes) / type.elements;
  }
  return bytes;
}

}  // namespace smelt::egraph
