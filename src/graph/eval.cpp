#include "graph/eval.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

#include "base/ensure.h"
#include "graph/args.h"
#include "graph/eval_ops.h"
#include "graph/eval_view.h"
#include "graph/operands.h"
#include "graph/steps.h"

namespace smelt {
namespace {

using namespace interpreter;

constexpr int64_t kRun = 1024;  // elements computed at a time

double as_double(Scalar value, DType dtype) { return is_float(dtype) ? value.f : static_cast<double>(value.i); }
Scalar as_scalar(double value, DType dtype) {
  return is_float(dtype) ? Scalar{.f = value} : Scalar{.i = static_cast<int64_t>(value)};
}

// --- the evaluator

class Evaluator {
 public:
  explicit Evaluator(const EvalInputs& inputs) : inputs_(inputs) {}

  EvalResult run(Ref root) {
    Refs order = toposort(root);
    count_uses(order);
    remaining_[root.get()] += 1;
    Refs before, after;
    for (Ref node : order) (is_after_steps(node) ? after : before).push_back(node);
    compute_all(before);
    for (Ref node : after)
      if (is_leaving(node)) take_steps(node);
    compute_all(after);
    if (root->op != Op::Sink) result_.value = array_of(root);
    return std::move(result_);
  }

 private:
  void compute_all(const Refs& nodes) {
    for (Ref node : nodes) {
      if (is_piecewise(node)) continue;
      const bool has_value = node->op != Op::Sink && node->op != Op::Local && !is_leaving(node);
      if (has_value) views_[node.get()] = compute(node);
      for (Ref s : node->src) release(s);
    }
  }

  // Whether it depends on what steps leave. REQUIRES: asked of all nodes in order.
  bool is_after_steps(Ref node) {
    Ref left = node->op == Op::Local ? node : Ref();
    for (Ref s : node->src)
      if (const auto known = left_of_.find(s.get()); known != left_of_.end()) left = known->second;
    if (left) left_of_[node.get()] = left;
    return bool(left);
  }

  // What each step finds. All steps compute all of it, and from each one row is taken.
  void take_steps(Ref leaving) {
    const auto [left, numbers, next] = WriteView(leaving);
    const std::vector<int64_t> shape = shape_of(left);
    const auto axis = shape.begin() + axis_of_steps(leaving);
    const auto product = [](auto from, auto to) { return std::accumulate(from, to, int64_t{1}, std::multiplies<>()); };
    const int64_t steps = *axis, blocks = product(shape.begin(), axis), size = product(axis + 1, shape.end());
    std::vector<double> found(static_cast<size_t>(count_of(shape)));
    views_[left.get()] = view_of(found, shape);
    for (int64_t s = 0; s + 1 < steps; ++s) {
      for (Ref n : toposort(next)) {
        const auto known = left_of_.find(n.get());
        if (known == left_of_.end() || n == left || is_piecewise(n)) continue;
        ENSURE(known->second == left, "eval: steps inside of steps");
        views_[n.get()] = compute(n);
      }
      const std::vector<double> values = read_all(next);
      for (int64_t b = 0; b < blocks; ++b) {
        const auto from = values.begin() + (b * steps + s) * size;
        std::copy(from, from + size, found.begin() + (b * steps + s + 1) * size);
      }
      views_[left.get()] = view_of(found, shape);
    }
  }

  // Whether the node is computed piece by piece inside its only user.
  bool is_piecewise(Ref node) const { return piecewise_.contains(node.get()); }

  void count_uses(const Refs& order) {
    std::unordered_map<const Node*, Ref> user;
    for (Ref node : order) {
      for (Ref s : node->src) {
        remaining_[s.get()] += 1;
        user[s.get()] = node;
      }
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      Ref node = *it;
      if (!is_elementwise(node->op) || node->op == Op::Bitcast || remaining_[node.get()] != 1) continue;
      Ref by = user.at(node.get());
      bool streams = by->op == Op::ReduceSum || by->op == Op::ReduceMax;
      if (streams || is_piecewise(by)) piecewise_.insert({node.get(), true});
    }
  }

  void release(Ref node) {
    if (--remaining_[node.get()] > 0) return;
    views_.erase(node.get());
    if (is_piecewise(node))
      for (Ref s : node->src) release(s);
  }

  int64_t size_of_dim(Ref dim) const {
    ScalarValues values;
    for (Ref leaf : toposort(dim))
      if (leaf->op == Op::Var) values[leaf] = {.i = variable_value(leaf)};
    auto value = eval_scalar(dim, values);
    ENSURE(value, "eval: a dimension has no value");
    return value->i;
  }

  int64_t variable_value(Ref variable) const {
    auto it = inputs_.variables.find(variable->arg.name);
    ENSURE(it != inputs_.variables.end(), "eval: no value for variable " + variable->arg.name);
    return it->second;
  }

  std::vector<int64_t> shape_of(Ref node) const {
    std::vector<int64_t> shape;
    for (Ref d : node->shape) shape.push_back(size_of_dim(d));
    return shape;
  }

  // Elements begin .. begin + count - 1 in row-major order.
  void read(Ref node, int64_t begin, int64_t count, double* out) const {
    if (auto it = views_.find(node.get()); it != views_.end()) return read_view(it->second, begin, count, out);
    elementwise_run(node, begin, count, out);
  }

  void elementwise_run(Ref node, int64_t begin, int64_t count, double* out) const {
    std::vector<double> values(node->src.size() * static_cast<size_t>(count));
    const double* src[3] = {};
    for (size_t k = 0; k < node->src.size(); ++k) {
      double* to = values.data() + k * static_cast<size_t>(count);
      read(node->src[k], begin, count, to);
      src[k] = to;
    }
    apply_to_run(*node, std::span(src, node->src.size()), static_cast<size_t>(count), inputs_.round_f32, out);
  }

  std::vector<double> read_all(Ref node) const {
    std::vector<double> values(static_cast<size_t>(count_of(shape_of(node))));
    auto total = static_cast<int64_t>(values.size());
    for (int64_t at = 0; at < total; at += kRun) read(node, at, std::min(kRun, total - at), values.data() + at);
    return values;
  }

  Array array_of(Ref node) const { return {node->dtype, shape_of(node), read_all(node)}; }

  const View& view(Ref node) const { return views_.at(node.get()); }

  View compute(Ref node) {
    switch (class_of(node->op)) {
      case OpClass::leaf: return leaf(node);
      case OpClass::unary:
        if (node->op == Op::Bitcast) return reinterpret(node);
        [[fallthrough]];
      case OpClass::binary:
      case OpClass::ternary: return elementwise(node);
      case OpClass::move: return move(node);
      case OpClass::reduce: return reduce(node);
      case OpClass::root: return effect(node);
      case OpClass::memory: break;
    }
    ENSURE(false, "eval: " + std::string(name_of(node->op)) + " is not an op of tensor graphs");
    return {};
  }

  View elementwise(Ref node) const {
    std::vector<double> values(static_cast<size_t>(count_of(shape_of(node))));
    auto total = static_cast<int64_t>(values.size());
    for (int64_t at = 0; at < total; at += kRun)
      elementwise_run(node, at, std::min(kRun, total - at), values.data() + at);
    return view_of(std::move(values), shape_of(node));
  }

  // One value at every index.
  View repeated(double value, std::vector<int64_t> shape) const {
    View view = view_of({value}, {});
    view.strides.assign(shape.size(), 0);
    view.shape = std::move(shape);
    return view;
  }

  View leaf(Ref node) const {
    switch (node->op) {
      case Op::Const: return repeated(as_double(*scalar_of(node), node->dtype), shape_of(node));
      case Op::Var: return repeated(static_cast<double>(variable_value(node)), shape_of(node));
      case Op::Iota: return counting(node);
      case Op::Param: return buffer(node);
      default: ENSURE(false, "eval: " + std::string(name_of(node->op)) + " is not a leaf of tensor graphs");
    }
    return {};
  }

  View counting(Ref node) const {
    std::vector<int64_t> shape = shape_of(node);
    auto axis = static_cast<size_t>(axis_of(node));
    std::vector<double> numbers(static_cast<size_t>(shape[axis]));
    std::iota(numbers.begin(), numbers.end(), 0.0);
    View view = view_of(std::move(numbers), {shape[axis]});
    view.strides.assign(shape.size(), 0);
    view.strides[axis] = 1;
    view.shape = std::move(shape);
    return view;
  }

  View buffer(Ref node) const {
    auto it = inputs_.buffers.find(slot_of(node));
    ENSURE(it != inputs_.buffers.end(), "eval: no buffer for slot " + std::to_string(slot_of(node)));
    std::vector<int64_t> shape = shape_of(node);
    auto needed = static_cast<size_t>(count_of(shape) * size_of(node->dtype));
    ENSURE(it->second.size() >= needed, "eval: slot " + std::to_string(slot_of(node)) + " (" + node->arg.name +
                                            ") has " + std::to_string(it->second.size()) + " bytes of " +
                                            std::to_string(needed));
    auto storage = std::make_shared<Storage>(Storage{.bytes = it->second, .dtype = node->dtype});
    Strides strides = row_major(shape);
    return {std::move(storage), std::move(shape), std::move(strides)};
  }

  View reinterpret(Ref node) const {
    Array source = array_of(operand_of(node));
    std::vector<std::byte> bytes = to_bytes(source);
    std::vector<double> values(static_cast<size_t>(count_of(shape_of(node))));
    for (size_t k = 0; k < values.size(); ++k) values[k] = load_element(bytes, node->dtype, static_cast<int64_t>(k));
    return view_of(std::move(values), shape_of(node));
  }

  // --- movement

  View move(Ref node) const {
    if (node->op == Op::Gather) return gather(node);
    const Ref from = operand_of(node);
    View view = this->view(from);
    std::vector<int64_t> shape = shape_of(node);
    switch (node->op) {
      case Op::Reshape:
        if (!is_row_major(view)) return view_of(read_all(from), std::move(shape));
        view.strides = row_major(shape);
        break;
      case Op::Permute: {
        Strides strides = view.strides;
        for (size_t k = 0; k < strides.size(); ++k)
          view.strides[k] = strides[static_cast<size_t>(permutation_of(node)[k])];
        break;
      }
      case Op::Expand:
        for (size_t k = 0; k < shape.size(); ++k)
          if (shape[k] != view.shape[k]) view.strides[k] = 0;
        break;
      case Op::Shrink:
        for (size_t k = 0; k < shape.size(); ++k) view.offset += begins_of(node)[k] * view.strides[k];
        break;
      case Op::Flip: {
        auto axis = static_cast<size_t>(axis_of(node));
        view.offset += (shape[axis] - 1) * view.strides[axis];
        view.strides[axis] = -view.strides[axis];
        break;
      }
      default: ENSURE(false, "eval: unknown movement");
    }
    view.shape = std::move(shape);
    return view;
  }

  View gather(Ref node) const {
    const GatherView gathered(node);
    std::vector<int64_t> source_shape = shape_of(gathered.rows);
    std::vector<double> rows = read_all(gathered.numbers);
    int64_t row_size = count_of(source_shape) / std::max<int64_t>(source_shape[0], 1);
    std::vector<double> values(rows.size() * static_cast<size_t>(row_size));
    for (size_t k = 0; k < rows.size(); ++k) {
      auto row = static_cast<int64_t>(rows[k]);
      ENSURE(row >= 0 && row < source_shape[0],
             "eval: gather of row " + std::to_string(row) + " of " + std::to_string(source_shape[0]));
      read(gathered.rows, row * row_size, row_size, values.data() + k * static_cast<size_t>(row_size));
    }
    return view_of(std::move(values), shape_of(node));
  }

  // --- reductions

  // Calls f(where in the result, value of src...) for every element, in row-major order of the
  // sources.
  template <class F>
  void for_each_reduced(Ref node, F f) const {
    std::vector<int64_t> shape = shape_of(node->src.front());
    std::vector<int64_t> kept = shape;
    for (int64_t axis : reduced_axes(node)) kept[static_cast<size_t>(axis)] = 1;
    Strides strides = row_major(kept);
    for (int64_t axis : reduced_axes(node)) strides[static_cast<size_t>(axis)] = 0;
    int64_t total = count_of(shape);
    if (total == 0) return;
    Walker walker(shape, strides, 0, 0);
    std::vector<double> x(kRun), y(kRun);
    for (int64_t at = 0; at < total;) {
      int64_t part = std::min({kRun, walker.left_in_row(), total - at});
      read(node->src.front(), at, part, x.data());
      if (node->src.size() > 1) read(node->src.back(), at, part, y.data());
      for (int64_t k = 0; k < part; ++k)
        f(static_cast<size_t>(walker.at() + k * walker.step()), x[static_cast<size_t>(k)], y[static_cast<size_t>(k)]);
      walker.advance(part);
      at += part;
    }
  }

  View reduce(Ref node) const {
    std::vector<int64_t> shape = shape_of(node);
    auto count = static_cast<size_t>(count_of(shape));
    std::vector<double> result;
    switch (node->op) {
      case Op::ReduceSum: result = sum(node, count); break;
      case Op::ReduceMax: result = maximum(node, count); break;
      case Op::SoftmaxSum: result = softmax_sum(node, count); break;
      case Op::TopK: result = top_k(node); break;
      default: ENSURE(false, "eval: unknown reduction");
    }
    if (is_float(node->dtype) && (inputs_.round_f32 || size_of(node->dtype) == 2))
      for (double& v : result) v = round_to(v, node->dtype);
    return view_of(std::move(result), std::move(shape));
  }

  std::vector<double> sum(Ref node, size_t count) const {
    std::vector<double> total(count, 0);
    for_each_reduced(node, [&](size_t at, double x, double) { total[at] += x; });
    if (!is_float(node->dtype))
      for (double& v : total) v = static_cast<double>(wrap(static_cast<int64_t>(v), node->dtype));
    return total;
  }

  static double lowest_of(DType dtype) {
    if (!is_float(dtype)) return static_cast<double>(lowest_int(dtype));
    switch (dtype) {
      case DType::F16: return -65504;
      case DType::BF16: return from_bits(0xff7f, dtype).f;
      case DType::F32: return std::numeric_limits<float>::lowest();
      default: return std::numeric_limits<double>::lowest();
    }
  }

  std::vector<double> maximum(Ref node, size_t count) const {
    std::vector<double> highest(count, lowest_of(node->dtype));
    for_each_reduced(node, [&](size_t at, double x, double) { highest[at] = std::max(highest[at], x); });
    return highest;
  }

  std::vector<double> softmax_sum(Ref node, size_t count) const {
    std::vector<double> highest(count, lowest_of(SoftmaxView(node).score->dtype)), total(count, 0);
    for_each_reduced(node, [&](size_t at, double score, double) { highest[at] = std::max(highest[at], score); });
    for_each_reduced(
        node, [&](size_t at, double score, double value) { total[at] += std::exp(score - highest[at]) * value; });
    return total;
  }

  // Along the last axis.
  std::vector<double> top_k(Ref node) const {
    std::vector<int64_t> shape = shape_of(operand_of(node));
    int64_t length = shape.back(), k = top_count(node);
    ENSURE(k <= length, "eval: top-k of a shorter axis");
    std::vector<double> values = read_all(operand_of(node)), result;
    std::vector<int64_t> order(static_cast<size_t>(length));
    for (const double* row = values.data(); row < values.data() + values.size(); row += length) {
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [row](int64_t a, int64_t b) { return row[a] > row[b]; });
      result.insert(result.end(), order.begin(), order.begin() + k);
    }
    return result;
  }

  // --- writes and outputs

  View effect(Ref node) {
    if (node->op == Op::Write) return write(node);
    ENSURE(node->op == Op::Output, "eval: unknown root");
    result_.outputs[slot_of(node)] = array_of(operand_of(node));
    return view(operand_of(node));
  }

  View write(Ref node) {
    const WriteView written(node);
    Array buffer = array_of(written.buffer);
    std::vector<double> rows = read_all(written.numbers), values = read_all(written.rows);
    int64_t columns = shape_of(written.rows).back();
    for (size_t k = 0; k < rows.size(); ++k) {
      auto row = static_cast<int64_t>(rows[k]);
      ENSURE(row >= 0 && row < buffer.shape[0],
             "eval: write of row " + std::to_string(row) + " of " + std::to_string(buffer.shape[0]));
      for (int64_t c = 0; c < columns; ++c)
        buffer.values[static_cast<size_t>(row * buffer.shape[1] + first_column(node) + c)] =
            round_to(values[k * static_cast<size_t>(columns) + static_cast<size_t>(c)], node->dtype);
    }
    Ref param = node;
    while (param->op == Op::Write) param = WriteView(param).buffer;
    result_.written[slot_of(param)] = to_bytes(buffer);
    return view_of(std::move(buffer.values), std::move(buffer.shape));
  }

  const EvalInputs& inputs_;
  EvalResult result_;
  std::unordered_map<const Node*, View> views_;
  std::unordered_map<const Node*, int> remaining_;
  std::unordered_map<const Node*, bool> piecewise_;
  std::unordered_map<const Node*, Ref> left_of_;  // of nodes that depend on what steps leave
};

}  // namespace

EvalResult eval(Ref root, const EvalInputs& inputs) { return Evaluator(inputs).run(root); }

std::vector<std::byte> to_bytes(const Array& array) {
  auto size = static_cast<size_t>(size_of(array.dtype));
  std::vector<std::byte> bytes(array.values.size() * size);
  for (size_t k = 0; k < array.values.size(); ++k) {
    uint64_t bits = to_bits(as_scalar(array.values[k], array.dtype), array.dtype);
    std::memcpy(bytes.data() + k * size, &bits, size);
  }
  return bytes;
}

}  // namespace smelt
