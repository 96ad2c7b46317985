#include <algorithm>

#include "graph/matrix_shape.h"
#include "graph/verify_parts.h"
#include "graph/views.h"

namespace smelt {
namespace {

std::string wants(bool holds, const char* what) { return holds ? "" : std::string("it wants ") + what; }

bool is_buffer(Ref node) { return node->op == Op::Param || node->op == Op::Temp || node->op == Op::Local; }

// The ranges from source `first` on: each once, and nothing else there.
std::string ranges_from(Ref node, size_t first) {
  for (size_t k = first; k < node->src.size(); ++k) {
    if (node->src[k]->op != Op::Range) return "it wants ranges after its values";
    if (std::find(node->src.begin() + static_cast<std::ptrdiff_t>(first),
                  node->src.begin() + static_cast<std::ptrdiff_t>(k),
                  node->src[k]) != node->src.begin() + static_cast<std::ptrdiff_t>(k))
      return "it has a range twice";
  }
  return "";
}

std::string shared_rounds(Ref node, Phase phase) {
  if (phase != Phase::Expanded) return "it belongs to expanded kernels";
  const auto [values, ranges] = ReduceView(node);
  const auto count = static_cast<size_t>(node->arg.list[0]);
  if (values.size() != 2 && values.size() != 1 + count) return "it has a wrong number of values";
  if (ranges.size() != 2 || !is_of_threads(ranges[1]) || !is_const(RangeView(ranges[1]).size, node->arg.list[0]))
    return "it wants ranges of rounds and of as many threads";
  const bool are_alike =
      std::all_of(values.begin(), values.end(), [&](Ref value) { return value->dtype == node->dtype; });
  return are_alike ? ranges_from(node, values.size()) : "its values differ in dtype";
}

std::string reduction(Ref node, Phase phase) {
  if (has_shared_rounds(node)) return shared_rounds(node, phase);
  const size_t values = ReduceView(node).values.size();
  // Of sums and softmaxes a round may have several terms then, which are added one after the other.
  bool terms = (node->op == Op::ReduceSum || node->op == Op::SoftmaxSum) && phase == Phase::Expanded;
  size_t wanted = node->op == Op::SoftmaxSum ? 2 : 1;
  if (values != wanted && !(terms && values >= wanted && values % wanted == 0))
    return "it has a wrong number of values";
  if (values == node->src.size()) return "it has no ranges";
  for (size_t k = 0; k < values; ++k)
    if (node->op == Op::SoftmaxSum && node->src[k]->dtype != node->src[k % 2]->dtype)
      return "its pairs differ in dtype";
  if (phase == Phase::Expanded)
    for (size_t k = values; k < node->src.size(); ++k)
      if (node->src[k]->op == Op::Range && kind_of(node->src[k]) == RangeKind::Lane)
        return "lanes leave a reduction by lane_reduce";
  return ranges_from(node, values);
}

std::string lanes(Ref node, Phase phase) {
  if (phase != Phase::Expanded) return "it belongs to expanded kernels";
  auto op = static_cast<Op>(node->arg.i);
  if (node->arg.i < 0 || node->arg.i > 255 || (op != Op::ReduceSum && op != Op::ReduceMax))
    return "it wants a sum or a maximum";
  if (node->src[1]->op != Op::Range || kind_of(node->src[1]) != RangeKind::Lane) return "it wants a lane range";
  return wants(node->src[0]->dtype == node->dtype, "a value of its dtype");
}

std::string matrix_dot(Ref node) {
  if (!is_matrix_shape(node->arg.list)) return "it wants a shape";
  const MatrixShape s = matrix_shape(node->arg.list);
  if (node->dtype != (s.of_halves ? DType::F32 : DType::I32)) return "it wants dtype i32, or f32 of halves";
  if (s.in_fragments) {
    const MatrixDotView view(node);
    if (static_cast<int64_t>(view.words.size()) != s.a_words() + s.b_words()) return "it has a wrong number of words";
    if (!view.sums.empty() && static_cast<int64_t>(view.sums.size()) != s.sums())
      return "it has a wrong number of sums";
    if (s.of_halves) {
      const ColumnsView columns(node);
      if (!is_buffer(columns.buffer) || columns.offset->dtype != DType::I64) return "it wants a buffer, an i64 offset";
    }
    for (Ref word : view.words.first(static_cast<size_t>(s.a_words() + (s.of_halves ? 0 : s.b_words()))))
      if (word->dtype != DType::U32) return "it wants words u32";
    for (Ref sum : view.sums)
      if (sum->dtype != node->dtype) return "it wants sums of its dtype";
    return "";
  }
  if (node->src.size() != 4) return "it wants two buffers, each with an offset";
  for (size_t k : {0, 2})
    if (!is_buffer(node->src[k]) || node->src[k + 1]->dtype != DType::I64)
      return "it wants two buffers, each with an i64 offset";
  return "";
}

std::string matrix_item(Ref node) {
  if (node->src.size() < 2 || node->src[0]->op != Op::MatrixDot || node->dtype != node->src[0]->dtype)
    return "it wants a matrix_dot, and its dtype";
  const MatrixShape s = matrix_shape(node->src[0]->arg.list);
  const MatrixItemView item(node);
  if (s.in_fragments == static_cast<bool>(item.lane)) return "a row has lanes, a sum of fragments has none";
  if (item.lane && !is_range(item.lane, RangeKind::Lane)) return "it wants a lane range";
  const bool is_known = item.number->min >= 0 && item.number->max < s.items();
  return wants(item.number->dtype == DType::I64 && is_known, "an i64 number of what the product has");
}

std::string memory(Ref node, Phase phase) {
  switch (node->op) {
    case Op::Load:
      if (!is_buffer(node->src[0]) || node->src[1]->dtype != DType::I64) return "it wants a buffer and an i64 offset";
      if (most_loaded(node) < 0 || (most_loaded(node) > 0 && !is_int(node->dtype)))
        return "only integers have a greatest one";
      return wants(node->dtype != DType::Void, "a dtype");
    case Op::Store:
      if (node->src.size() < 3) return "it wants a buffer, an offset and a value";
      if (!is_buffer(node->src[0]) || node->src[1]->dtype != DType::I64) return "it wants a buffer and an i64 offset";
      if (node->src[2]->dtype == DType::Void || node->dtype != DType::Void) return "it wants a value, and is none";
      return ranges_from(node, 3);
    case Op::LaneReduce: return lanes(node, phase);
    case Op::MatrixDot: return matrix_dot(node);
    case Op::MatrixItem: return matrix_item(node);
    case Op::TopKLane:
      if (node->src[0]->op != Op::TopK || node->dtype != DType::I32) return "it wants a topk, and dtype i32";
      return wants(top_place(node) >= 0 && top_place(node) < top_count(node->src[0]), "an entry of the topk");
    default: return "";
  }
}

std::string sources(Ref node) {
  for (size_t k = 0; k < node->src.size(); ++k) {
    Ref s = node->src[k];
    bool address = (k == 0 && (node->op == Op::Load || node->op == Op::Store)) ||
                   (node->op == Op::MatrixDot && is_address_of_matrix(matrix_shape(node->arg.list), k));
    if (is_buffer(s) && !address) return "it uses a buffer as a value";
    if (s->op == Op::Store && node->op != Op::Sink) return "it uses a store";
    if (s->op == Op::Sink && node->op != Op::Sink) return "it uses a sink";
    if (s->op == Op::MatrixDot && node->op != Op::MatrixItem) return "a matrix_dot is read by matrix_item";
    if (s->op == Op::TopK && node->op != Op::TopKLane) return "a topk is read by topk_item";
    if (node->op == Op::Sink && s->op != Op::Store && s->op != Op::Sink) return "it wants stores, or sinks of stores";
  }
  return "";
}

}  // namespace

std::string kernel_problem(Ref node, Phase phase) {
  if (!node->shape.empty() && !is_buffer(node)) return "values of kernels are scalars";
  if (std::string problem = sources(node); !problem.empty()) return problem;
  switch (class_of(node->op)) {
    case OpClass::leaf:
      if (node->op == Op::Iota) return "it belongs to tensor graphs";
      if (node->op == Op::Range && phase == Phase::Expanded &&
          (kind_of(node) == RangeKind::Unroll || kind_of(node) == RangeKind::MatrixRow))
        return "unrolled ranges are written out";
      if (node->op == Op::Range && phase == Phase::Expanded && kind_of(node) == RangeKind::Byte)
        return "ranges of bytes have become words";
      return "";
    case OpClass::unary:
    case OpClass::binary:
    case OpClass::ternary: return "";
    case OpClass::reduce: return reduction(node, phase);
    case OpClass::memory: return memory(node, phase);
    case OpClass::root: return node->op == Op::Sink ? "" : "it belongs to tensor graphs";
    case OpClass::move: break;
  }
  return "it belongs to tensor graphs";
}

}  // namespace smelt
