#include "graph/views.h"

#include <algorithm>
#include <iterator>

#include "graph/constants.h"
#include "graph/matrix_shape.h"

namespace smelt {
namespace {

// A value may be a range itself: how many there are at least says the op.
size_t count_of_values(Ref reduce) {
  size_t count = std::min<size_t>(reduce->op == Op::SoftmaxSum ? 2 : 1, reduce->src.size());
  while (count < reduce->src.size() && reduce->src[count]->op != Op::Range) ++count;
  return count;
}

size_t first_range(Ref node) { return node->op == Op::Store ? 3 : count_of_values(node); }

}  // namespace

ReduceView::ReduceView(Ref reduce)
    : values(std::span(reduce->src).first(count_of_values(reduce))),
      ranges(std::span(reduce->src).subspan(values.size())) {}

Refs own_ranges(Ref node) {
  return Refs(node->src.begin() + static_cast<std::ptrdiff_t>(first_range(node)), node->src.end());
}

Ref with_ranges(Ref node, std::span<const Ref> ranges) {
  Refs src(node->src.begin(), node->src.begin() + static_cast<std::ptrdiff_t>(first_range(node)));
  src.insert(src.end(), ranges.begin(), ranges.end());
  return with_sources(node, std::move(src));
}

Ref first_of_kind(std::span<const Ref> ranges, RangeKind kind) {
  const auto found = std::find_if(ranges.begin(), ranges.end(), [&](Ref r) { return kind_of(r) == kind; });
  return found == ranges.end() ? Ref() : *found;
}

Refs all_of_kind(std::span<const Ref> ranges, RangeKind kind) {
  Refs out;
  std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(out), [&](Ref r) { return kind_of(r) == kind; });
  return out;
}

Ref make_store(Ref buffer, Ref offset, Ref value, std::span<const Ref> ranges) {
  Refs src{buffer, offset, value};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return make(Op::Store, DType::Void, std::move(src));
}

Ref make_load(DType dtype, Ref buffer, Ref offset, int64_t most) {
  return make(Op::Load, dtype, {buffer, offset}, {.i = most});
}

Ref make_reduce(Op op, DType dtype, Refs values, std::span<const Ref> ranges) {
  values.insert(values.end(), ranges.begin(), ranges.end());
  return make(op, dtype, std::move(values));
}

Ref make_lane_reduce(Op reduce, Ref value, Ref lanes) {
  return make(Op::LaneReduce, value->dtype, {value, lanes}, {.i = static_cast<int64_t>(reduce)});
}

MatrixDotView::MatrixDotView(Ref product) {
  const MatrixShape shape = matrix_shape(product->arg.list);
  const std::span<const Ref> all(product->src);
  const auto n_words = std::min(static_cast<size_t>(shape.a_words() + shape.b_words()), all.size());
  words = all.first(n_words), sums = all.subspan(n_words);
}

ColumnsView::ColumnsView(Ref product)
    : at(MatrixDotView(product).words.size() - 2), buffer(product->src[at]), offset(product->src[at + 1]) {}

Ref product_before(Ref product) {
  const MatrixDotView view(product);
  if (view.sums.empty() || view.sums[0]->op != Op::MatrixItem) return Ref();
  const Ref before = MatrixItemView(view.sums[0]).product;
  for (size_t i = 0; i < view.sums.size(); ++i) {
    if (view.sums[i]->op != Op::MatrixItem) return Ref();
    const auto [of, number, lane] = MatrixItemView(view.sums[i]);
    if (of != before || lane || !is_const(number, static_cast<int64_t>(i))) return Ref();
  }
  return before;
}

bool begins_at_zero(Ref product) {
  while (const Ref before = product_before(product)) product = before;
  return MatrixDotView(product).sums.empty();
}

}  // namespace smelt
