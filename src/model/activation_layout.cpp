#include "model/activation_layout.h"

#include <algorithm>
#include <numeric>

#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"
#include "model/block_groups.h"

namespace smelt {
namespace {

constexpr int64_t kGroup = 32, kHalves = 2, kThreads = 4, kBytes = 4;  // a group of bytes, as four threads hold it

std::vector<Dim> dims_of(Tensor x) { return {x.shape().begin(), x.shape().end()}; }

// Where axis `from` goes to `to`, and the others keep their order.
std::vector<int> order_with(int rank, int from, int to) {
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  axes.erase(axes.begin() + from);
  axes.insert(axes.begin() + to, from);
  return axes;
}

// The numbers with one more axis: groups of rows, then the rows of a group.
struct Split {
  Tensor x;
  int axis;  // of groups
};

// Axes of known sizes in front of the groups are one with them. The first axis then counts all groups, and tasks go by
// it, as each makes what follows from a row of a first axis (schedule/row_tiles.h).
Split split_rows(Tensor x, const ActivationLayout& layout) {
  const std::vector<Dim> shape = dims_of(x);
  const auto behind = shape.begin() + layout.axis + 1;
  std::vector<Dim> dims(shape.begin(), behind);
  dims.back() = Dim(simplify(x.dim(layout.axis) / layout.rows));
  if (std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return bool(const_int(d.ref)); })) {
    int64_t groups = 1;
    for (const Dim& d : dims) groups *= *const_int(d.ref);
    dims = {Dim(groups)};
  }
  const int axis = static_cast<int>(dims.size()) - 1;
  dims.push_back(Dim(layout.rows));
  dims.insert(dims.end(), behind, shape.end());
  return {reshape(x, dims), axis};
}

constexpr int64_t kNumbersOfVector = 4;  // that a thread loads at once
constexpr int64_t kHalvesOfWord = 8;     // halves of a row that lie side by side for a unit

// Two neighbouring axes change places in each group; its own inverse but for their sizes.
Tensor turn_groups(Tensor q, int64_t outer, int64_t inner) {
  const int64_t k = q.size(-1);
  const Tensor groups = with_last_axes(q, 1, {k / kGroup, outer, inner, kBytes});
  return with_last_axes(permute(groups, order_with(groups.rank(), groups.rank() - 2, groups.rank() - 3)), 4, {k});
}

}  // namespace

Tensor place_rows(Tensor x, const ActivationLayout& layout, int64_t word, Line line) {
  if (layout.rows == 1) return place(x, line);
  const Split split = split_rows(x, layout);
  const Tensor words = with_last_axes(split.x, 1, {x.size(-1) / word, word});
  const int rows = split.axis + 1, before_word = words.rank() - 2;
  const Tensor placed = place(permute(words, order_with(words.rank(), rows, before_word)), line);
  return reshape(permute(placed, order_with(words.rank(), before_word, rows)), dims_of(x));
}

// Where numbers of a row lie by themselves, rows that bytes have side by side are an axis all the same: the task that
// makes these then makes both. A thread of a fragment has two neighbouring rows, and loads several numbers of one at
// once: rows of even numbers come first, so that such a load of all threads is on half as many lines.
Tensor place_numbers(Tensor x, const ActivationLayout& layout, Line line) {
  if (layout.rows == 1 || !layout.is_of_bytes) return place_rows(x, layout, 1, line);
  const Split split = split_rows(x, layout);
  const int row = split.axis + 1, last = split.x.rank() - 1;
  const bool has_vectors = last == row + 1 && x.size(-1) % kNumbersOfVector == 0;
  if (!has_vectors || layout.rows % 2 != 0) return reshape(place(split.x, line), dims_of(x));
  const Tensor pairs = with_last_axes(split.x, 2, {layout.rows / 2, 2, x.size(-1)});
  const std::vector<int> turned = order_with(pairs.rank(), row, row + 1);
  return reshape(permute(place(permute(pairs, turned), line), turned), dims_of(x));
}

// [.., quads, pairs, halves of these] -> [.., halves, quads, pairs], see kQuad; and the other way round.
Tensor place_halves(Tensor x, const ActivationLayout& layout, Line line) {
  if (layout.rows == 1) return place(x, line);
  const int64_t k = x.size(-1), steps = k / kHalvesOfStep, eights = kQuad / kPair;
  const auto flat = [&](Tensor y) { return with_last_axes(y, 4, {k}); };
  const Tensor quads = with_last_axes(x, 1, {steps, kFragmentPlaces, kPair, eights});
  const int last = quads.rank() - 1;
  const Tensor placed =
      place_rows(flat(permute(quads, order_with(last + 1, last, last - 2))), layout, kHalvesOfWord, line);
  const Tensor turned = with_last_axes(placed, 1, {steps, eights, kFragmentPlaces, kPair});
  return flat(permute(turned, order_with(last + 1, last - 2, last)));
}

bool has_whole_groups(Tensor q) { return q.size(-1) % kGroup == 0; }

Tensor place_bytes(Tensor q, const ActivationLayout& layout, Line line) {
  if (layout.rows == 1) return place(q, line);
  return turn_groups(place_rows(turn_groups(q, kHalves, kThreads), layout, kGroup, line), kThreads, kHalves);
}

}  // namespace smelt
