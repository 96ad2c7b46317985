#include "schedule/fold_chunks.h"

#include <algorithm>
#include <set>

#include "base/ensure.h"
#include "graph/range_kind.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr int64_t kManyTiles = 32;  // rows that keep workers busy without sharing chunks out
constexpr double kLowest = -3.4028234663852886e38;
constexpr double kLog2E = 1.4426950408889634;

int64_t tiles_of_rows(const TileShape& shape, Ref scores) {
  int64_t tiles = 1;
  for (int k = 0; k < shape.axis; ++k) {
    const auto axis = static_cast<size_t>(k);
    // An axis of symbolic size counts as long, whatever its greatest size.
    const int64_t rows = const_int(scores->shape[axis]).value_or(kManyTiles * shape.extents[axis]);
    tiles *= std::clamp<int64_t>(rows / shape.extents[axis], 1, kManyTiles);
  }
  return tiles;
}

// From the sums of a tile up to the placed tensors that are made of them.
class Ends {
 public:
  Ends(const TileTensors& tile, Ref root, const std::unordered_map<const Node*, Where>& places)
      : rows_(tile.inner.front()->shape.begin(), tile.inner.front()->shape.begin() + tile.axis),
        sums_(tile.sums),
        places_(places) {
    for (Ref n : toposort(root)) {
      for (Ref s : n->src) users_[s.get()].push_back(n);
      if (is_sum(n) || std::any_of(n->src.begin(), n->src.end(),
                                   [&](Ref s) { return above_.contains(s.get()); }))
        above_.insert(n.get());
    }
  }

  std::optional<Refs> run() {
    for (Ref sum : sums_)
      if (places_.contains(sum.get()) || !climb(sum)) return std::nullopt;
    for (Ref end : ends_)
      if (reaches_end_by_memory(end)) return std::nullopt;
    return ends_;
  }

 private:
  bool is_sum(Ref n) const { return contains(sums_, n); }

  bool keeps_rows(Ref n) const {
    return n->shape.size() >= rows_.size() &&
           std::equal(rows_.begin(), rows_.end(), n->shape.begin());
  }

  // Whether all uses work row by row.
  bool climb(Ref n) {
    for (Ref user : users_[n.get()]) {
      const bool is_step =
          is_elementwise(user->op) || user->op == Op::Expand || user->op == Op::Reshape;
      if (!is_step || !keeps_rows(user)) return false;
      const auto place = places_.find(user.get());
      if (place == places_.end()) {
        if (!climb(user)) return false;
      } else if (place->second != Where::Memory) {
        return false;
      } else if (!contains(ends_, user)) {
        ends_.push_back(user);
      }
    }
    return true;
  }

  // An end that needs another one in memory comes after all of the tile.
  bool reaches_end_by_memory(Ref end) const {
    Refs stack(end->src.begin(), end->src.end());
    std::set<const Node*> seen;
    while (!stack.empty()) {
      const Ref n = stack.back();
      stack.pop_back();
      if (is_sum(n) || !seen.insert(n.get()).second) continue;
      const bool is_stored = places_.contains(n.get()) || n->op == Op::Write;
      if (is_stored && above_.contains(n.get())) return true;
      if (!is_stored) stack.insert(stack.end(), n->src.begin(), n->src.end());
    }
    return false;
  }

  Shape rows_;
  const Refs& sums_;
  const std::unordered_map<const Node*, Where>& places_;
  std::unordered_map<const Node*, Refs> users_;
  std::set<const Node*> above_;  // the sums, and all that depends on them
  Refs ends_;
};

Ref store(Ref buffer, Ref offset, Ref value, const Refs& ranges) {
  Refs src{buffer, offset, value};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return make(Op::Store, DType::Void, std::move(src));
}

Ref load_from(Ref buffer, Ref offset) { return make(Op::Load, DType::F32, {buffer, offset}); }

Ref exp_of(Ref x) { return unary(Op::Exp2, x * constant_f(kLog2E, DType::F32)); }

Refs without_axis(Refs ranges, int axis) {
  std::erase_if(ranges, [&](Ref r) { return r->arg.i == kFirstOutputRange + axis; });
  return ranges;
}

}  // namespace

std::optional<Refs> ends_of_sums(const TileTensors& tile, const TileShape& shape, Ref root,
                                 const std::unordered_map<const Node*, Where>& places) {
  if (tiles_of_rows(shape, tile.inner.front()) < kManyTiles) return std::nullopt;
  return Ends(tile, root, places).run();
}

Ref maximum_below(Ref sum) {
  Ref n = sum->src[0];
  while (n->op == Op::Expand || n->op == Op::Place) n = n->src[0];
  return n;
}

FoldStores fold_stores(Lowering& lowering, Ref maxima, const Refs& sums, int axis,
                       const RunningBuffers& running) {
  const Ref at = maxima->src[1];
  const Refs rows(maxima->src.begin() + 3, maxima->src.end());
  const Ref before = load_from(running.maximum, at), here = load_from(maxima->src[0], at);
  const Ref now = binary(Op::Max, before, here);
  FoldStores out;
  out.before.push_back(
      store(running.maximum, at, constant_f(kLowest, DType::F32), without_axis(rows, axis)));
  out.chunk.push_back(store(running.keep, at, exp_of(before - now), rows));
  out.chunk.push_back(store(running.gain, at, exp_of(here - now), rows));
  for (Ref sum : sums) {
    const OutputLoops loops = output_loops(sum->src[1]->shape);
    Refs index = loops.index;
    index.erase(index.begin() + axis);
    const Ref row = lowering.at(sum->src[0], loops.index), so_far = lowering.at(sum, index);
    ENSURE(row->op == Op::Load && so_far->op == Op::Load, "a fold of what has no place");
    const Ref offset = so_far->src[1];
    const Ref part = lowering.at(sum->src[1], loops.index);
    out.before.push_back(
        store(so_far->src[0], offset, constant_f(0, DType::F32), without_axis(loops.ranges, axis)));
    out.chunk.push_back(store(
        so_far->src[0], offset,
        so_far * load_from(running.keep, row->src[1]) + part * load_from(running.gain, row->src[1]),
        loops.ranges));
  }
  out.chunk.push_back(store(running.maximum, at, now, rows));
  return out;
}

}  // namespace smelt
