#include "schedule/marked_axes.h"

#include "graph/args.h"
#include "graph/operands.h"

namespace smelt {
namespace {

// Axes of `to` that hold elements of the marked axes of `from`. Axes of equal sizes in order correspond; in a group
// that is split or merged, one marked axis marks all.
Axes through_reshape(const Shape& from, const Shape& to, const Axes& marked) {
  Axes out;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    if (i < from.size() && is_const(from[i], 1)) {
      ++i;
      continue;
    }
    if (j < to.size() && is_const(to[j], 1)) {
      ++j;
      continue;
    }
    if (i < from.size() && j < to.size() && from[i] == to[j]) {
      if (marked.contains(static_cast<int>(i))) out.insert(static_cast<int>(j));
      ++i, ++j;
      continue;
    }
    bool any = false;
    int64_t a = 1, b = 1;
    const size_t j0 = j;
    const auto size = [](Ref d) { return const_int(d).value_or(1 << 20); };
    do {
      if (i < from.size() && (a <= b || j == to.size())) {
        any |= marked.contains(static_cast<int>(i));
        a *= size(from[i++]);
      } else if (j < to.size()) {
        b *= size(to[j++]);
      }
    } while (a != b && (i < from.size() || j < to.size()));
    if (any)
      for (size_t k = j0; k < j; ++k) out.insert(static_cast<int>(k));
  }
  return out;
}

}  // namespace

Axes through_move(Ref move, const Axes& marked) {
  switch (move->op) {
    case Op::Reshape: return through_reshape(operand_of(move)->shape, move->shape, marked);
    case Op::Permute: {
      Axes out;
      for (size_t k = 0; k < permutation_of(move).size(); ++k)
        if (marked.contains(static_cast<int>(permutation_of(move)[k]))) out.insert(static_cast<int>(k));
      return out;
    }
    default: return marked;
  }
}

Axes without_axis(const Axes& axes, int axis) {
  Axes out;
  for (int a : axes)
    if (a != axis) out.insert(a > axis ? a - 1 : a);
  return out;
}

Axes expanded_axes(Ref expand) {
  Axes out;
  for (size_t k = 0; k < expand->shape.size(); ++k)
    if (expand->shape[k] != operand_of(expand)->shape[k]) out.insert(static_cast<int>(k));
  return out;
}

}  // namespace smelt
