#include "model/activation_layout.h"

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

constexpr int64_t kHalvesOfWord = 8;  // halves of a row that lie side by side for a unit

// Two neighbouring axes change places in each group; its own inverse but for their sizes.
Tensor turn_groups(Tensor q, int64_t outer, int64_t inner) {
  const int64_t k = q.size(-1);
  const Tensor groups = with_last_axes(q, 1, {k / kGroup, outer, inner, kBytes});
  return with_last_axes(permute(groups, order_with(groups.rank(), groups.rank() - 2, groups.rank() - 3)), 4, {k});
}

}  // namespace

Tensor place_rows(Tensor x, const ActivationLayout& layout, int64_t word, Line line) {
  if (layout.rows == 1) return place(x, line);
  const std::vector<Dim> shape = dims_of(x);
  std::vector<Dim> split = shape;
  split[static_cast<size_t>(layout.axis)] = Dim(simplify(x.dim(layout.axis) / layout.rows));
  split.insert(split.begin() + layout.axis + 1, Dim(layout.rows));
  split.back() = Dim(x.size(-1) / word);
  split.push_back(Dim(word));
  const int rank = static_cast<int>(split.size()), rows = layout.axis + 1, before_word = rank - 2;
  const Tensor placed = place(permute(reshape(x, split), order_with(rank, rows, before_word)), line);
  return reshape(permute(placed, order_with(rank, before_word, rows)), shape);
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
