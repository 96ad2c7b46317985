#include <algorithm>
#include <optional>

#include "graph/args.h"
#include "graph/steps.h"
#include "graph/verify_parts.h"

namespace smelt {
namespace {

std::string wants(bool holds, const char* what) { return holds ? "" : std::string("it wants ") + what; }

// The product of a shape, if all of it is constant and it is not absurdly large.
std::optional<__int128> element_count(const Shape& shape) {
  __int128 count = 1;
  for (Ref d : shape) {
    auto size = const_int(d);
    if (!size || count > (static_cast<__int128>(1) << 62)) return std::nullopt;
    count *= *size;
  }
  return count;
}

bool is_axis(int64_t axis, Ref tensor) { return axis >= 0 && axis < static_cast<int64_t>(tensor->shape.size()); }

std::string dimensions(Ref node) {
  for (Ref d : node->shape) {
    if (d->dtype != DType::I64 || !d->shape.empty()) return "a dimension is not an i64 scalar";
    for (Ref n : toposort(d)) {
      if (n->op != Op::Const && n->op != Op::Var && !is_elementwise(n->op))
        return "a dimension is not made of variables";
      if (!n->shape.empty() || !typing_problem(n).empty()) return "a dimension is not well typed";
    }
    if (d->max < 0) return "a dimension is negative";
  }
  return "";
}

std::string permutation(Ref node) {
  Ref x = node->src[0];
  std::vector<bool> seen(x->shape.size());
  if (permutation_of(node).size() != seen.size() || node->shape.size() != seen.size())
    return "it wants every axis once";
  for (size_t k = 0; k < seen.size(); ++k) {
    int64_t axis = permutation_of(node)[k];
    if (!is_axis(axis, x) || seen[static_cast<size_t>(axis)]) return "it wants every axis once";
    seen[static_cast<size_t>(axis)] = true;
    if (!(node->shape[k] == x->shape[static_cast<size_t>(axis)])) return "its shape is not the permuted one";
  }
  return "";
}

std::string window(Ref node) {
  Ref x = node->src[0];
  if (node->shape.size() != x->shape.size() || begins_of(node).size() != x->shape.size())
    return "it wants a beginning for every axis";
  for (size_t k = 0; k < x->shape.size(); ++k) {
    auto size = const_int(node->shape[k]), whole = const_int(x->shape[k]);
    int64_t begin = begins_of(node)[k];
    if (begin < 0 || (size && whole && (begin > *whole || *size > *whole - begin)))
      return "it reaches outside its source";
  }
  return "";
}

std::string repetition(Ref node) {
  Ref x = node->src[0];
  if (node->shape.size() != x->shape.size()) return "it changes the rank";
  for (size_t k = 0; k < x->shape.size(); ++k)
    if (!(node->shape[k] == x->shape[k]) && !is_const(x->shape[k], 1)) return "only axes of size 1 can grow";
  return "";
}

std::string gathering(Ref node) {
  Ref x = node->src[0], rows = node->src[1];
  if (x->shape.empty() || !is_int(rows->dtype)) return "it wants rows named by integers";
  Shape shape = rows->shape;
  shape.insert(shape.end(), x->shape.begin() + 1, x->shape.end());
  return wants(shape == node->shape, "shape(rows) + shape(source)[1:]");
}

std::string movement(Ref node) {
  Ref x = node->src[0];
  if (x->dtype != node->dtype) return "it changes the dtype";
  switch (node->op) {
    case Op::Reshape: {
      auto before = element_count(x->shape), after = element_count(node->shape);
      return wants(!before || !after || *before == *after, "as many elements as its source");
    }
    case Op::Permute: return permutation(node);
    case Op::Expand: return repetition(node);
    case Op::Shrink: return window(node);
    case Op::Flip:
      return wants(is_axis(axis_of(node), x) && node->shape == x->shape, "an axis, and the shape of its source");
    case Op::Gather: return gathering(node);
    default: return "";
  }
}

std::string tensor_reduction(Ref node) {
  Ref x = node->src[0];
  for (Ref s : node->src)
    if (!(s->shape == x->shape)) return "its sources differ in shape";
  if (node->src.size() != (node->op == Op::SoftmaxSum ? 2u : 1u)) return "it has a wrong number of sources";
  std::vector<int64_t> axes = reduced_axes(node);
  std::sort(axes.begin(), axes.end());
  bool good = !axes.empty() && std::adjacent_find(axes.begin(), axes.end()) == axes.end() && is_axis(axes[0], x) &&
              is_axis(axes.back(), x);
  if (!good) return "it wants its axes as list=[axis]";
  Shape shape = x->shape;
  if (node->op == Op::TopK) {
    shape.back() = constant(top_count(node));
    if (axes.back() + 1 != static_cast<int64_t>(shape.size())) return "it works along the last axis";
  } else {
    for (auto it = axes.rbegin(); it != axes.rend(); ++it) shape.erase(shape.begin() + *it);
  }
  return wants(shape == node->shape, "the shape of its source without its axes");
}

std::string reinterpretation(Ref node) {
  Ref x = node->src[0];
  if (node->shape.size() != x->shape.size()) return "it changes the rank";
  for (size_t k = 0; k + 1 < node->shape.size(); ++k)
    if (!(node->shape[k] == x->shape[k])) return "only the last axis may change";
  if (size_of(x->dtype) == size_of(node->dtype)) return wants(node->shape == x->shape, "the shape of its source");
  auto before = x->shape.empty() ? std::nullopt : const_int(x->shape.back());
  auto after = node->shape.empty() ? std::nullopt : const_int(node->shape.back());
  bool whole =
      before && after &&
      static_cast<__int128>(*before) * size_of(x->dtype) == static_cast<__int128>(*after) * size_of(node->dtype);
  return wants(whole, "as many bytes as its source along the last axis");
}

std::string same_shapes(Ref node) {
  for (Ref s : node->src)
    if (!(s->shape == node->shape)) return "its sources are not of its shape";
  return "";
}

std::string leaving(Ref node) {
  const auto [left, rows, next] = WriteView(node);
  if (!is_axis(axis_of_steps(node), left)) return "it wants an axis of what is left";
  for (Ref s : {left, next})
    if (s->dtype != node->dtype || !(s->shape == node->shape)) return "it wants dtype and shape of what is left";
  const Shape count{node->shape[static_cast<size_t>(axis_of_steps(node))]};
  return wants(is_int(rows->dtype) && rows->shape == count, "a number for each step");
}

std::string writing(Ref node) {
  if (is_leaving(node)) return leaving(node);
  Ref buffer = node->src[0], rows = node->src[1], values = node->src[2];
  Ref below = buffer;
  while (below->op == Op::Write) below = below->src[0];
  if (below->op != Op::Param || buffer->shape.size() != 2) return "it wants a 2-d param";
  if (rows->shape.size() != 1 || !is_int(rows->dtype)) return "it wants integer rows";
  if (values->shape.size() != 2 || !(values->shape[0] == rows->shape[0]))
    return "it wants one line of values for each row";
  if (values->dtype != node->dtype || buffer->dtype != node->dtype) return "it wants values of the buffer's dtype";
  auto columns = const_int(values->shape[1]), width = const_int(buffer->shape[1]);
  bool inside = columns && width && first_column(node) >= 0 && first_column(node) <= *width &&
                *columns <= *width - first_column(node);
  if (!inside) return "its columns are outside the buffer";
  return wants(node->shape == buffer->shape, "the shape of the buffer");
}

std::string root(Ref node) {
  switch (node->op) {
    case Op::Write: return writing(node);
    case Op::Output:
      return wants(node->dtype == node->src[0]->dtype && node->shape == node->src[0]->shape,
                   "dtype and shape of its source");
    default: return "";
  }
}

std::string leaf(Ref node) {
  switch (node->op) {
    case Op::Temp:
    case Op::Range: return "it belongs to kernels";
    case Op::Local: return wants(!node->shape.empty(), "a shape, in which steps leave something");
    case Op::Iota: return wants(is_axis(axis_of(node), node), "an axis of its shape");
    case Op::Param: return wants(slot_of(node) >= 0 && node->dtype != DType::Void, "a slot and a dtype");
    default: return "";
  }
}

// Only the sink may use outputs, and nothing uses a sink.
std::string sources(Ref node) {
  for (Ref s : node->src) {
    if (s->op == Op::Sink) return "it uses a sink";
    if (s->op == Op::Output && node->op != Op::Sink) return "it uses an output";
    if (node->op == Op::Sink && s->op != Op::Output && s->op != Op::Write) return "it wants outputs and writes";
  }
  return "";
}

}  // namespace

std::string tensor_problem(Ref node) {
  if (std::string problem = sources(node); !problem.empty()) return problem;
  if (std::string problem = dimensions(node); !problem.empty()) return problem;
  switch (class_of(node->op)) {
    case OpClass::leaf: return leaf(node);
    case OpClass::unary: return node->op == Op::Bitcast ? reinterpretation(node) : same_shapes(node);
    case OpClass::binary:
    case OpClass::ternary: return same_shapes(node);
    case OpClass::move: return movement(node);
    case OpClass::reduce: return tensor_reduction(node);
    case OpClass::root: return root(node);
    case OpClass::memory: break;
  }
  return "it belongs to kernels";
}

}  // namespace smelt
