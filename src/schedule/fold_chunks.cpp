#include "schedule/fold_chunks.h"

#include <algorithm>
#include <set>

#include "base/ensure.h"
#include "graph/constants.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

// Whether there are many rows, of which workers have enough without sharing chunks out. An axis of symbolic size counts
// as long, those of known sizes as short, whatever their sizes: how chunks are combined shows in bits, which must not
// depend on how many tokens are generated together.
bool has_many_rows(const TileShape& shape, Ref scores) {
  const auto rows = std::span(scores->shape).first(static_cast<size_t>(shape.axis));
  return std::any_of(rows.begin(), rows.end(), [](Ref n) { return !const_int(n); });
}

// The walk from the sums of a tile up to the placed tensors that are made of them.
class Ends {
 public:
  Ends(const TileTensors& tile, Ref root, const std::unordered_map<const Node*, Where>& places)
      : rows_(tile.inner.front()->shape.begin(), tile.inner.front()->shape.begin() + tile.axis),
        sums_(tile.sums),
        places_(places) {
    for (Ref n : toposort(root)) {
      for (Ref s : n->src) users_[s.get()].push_back(n);
      if (is_sum(n) || std::any_of(n->src.begin(), n->src.end(), [&](Ref s) { return above_.contains(s.get()); }))
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
    return n->shape.size() >= rows_.size() && std::equal(rows_.begin(), rows_.end(), n->shape.begin());
  }

  // Whether all uses keep rows apart.
  bool climb(Ref n) {
    for (Ref user : users_[n.get()]) {
      const bool is_step = is_elementwise(user->op) || user->op == Op::Expand || user->op == Op::Reshape;
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

Ref exp_of(Ref x) { return unary(Op::Exp2, x * constant_f(kLog2E, DType::F32)); }

Refs without_axis(std::span<const Ref> ranges, int axis) {
  Refs rest;
  for (Ref r : ranges)
    if (RangeView(r).number != output_range(axis)) rest.push_back(r);
  return rest;
}

}  // namespace

std::optional<Refs> ends_of_sums(const TileTensors& tile, const TileShape& shape, Ref root,
                                 const std::unordered_map<const Node*, Where>& places) {
  if (!has_many_rows(shape, tile.inner.front())) return std::nullopt;
  return Ends(tile, root, places).run();
}

Ref maximum_below(Ref sum) {
  Ref n = reduced_tensor(sum);
  while (n->op == Op::Expand || n->op == Op::Place) n = operand_of(n);
  return n;
}

namespace {

// A maximum over the chunks: the greatest one so far.
void add_maximum(Lowering& lowering, Ref sum, int axis, FoldStores& out) {
  const Ref maxima = operand_of(sum);
  const OutputLoops loops = output_loops(maxima->shape);
  Refs index = loops.index;
  index.erase(index.begin() + axis);
  const LoadView total(lowering.at(sum, index));
  const Ref more = binary(Op::Max, lowering.at(sum, index), lowering.at(maxima, loops.index));
  out.before.push_back(
      make_store(total.buffer, total.offset, constant_f(kLowest, DType::F32), without_axis(loops.ranges, axis)));
  out.chunk.push_back(make_store(total.buffer, total.offset, more, loops.ranges));
}

}  // namespace

FoldStores fold_stores(Lowering& lowering, const StoreView& maxima, const Refs& sums, int axis,
                       const RunningBuffers& running) {
  const auto load = [](Ref buffer, Ref offset) { return make_load(DType::F32, buffer, offset); };
  const Ref at = maxima.offset;
  const Ref before = load(running.maximum, at), here = load(maxima.buffer, at);
  const Ref now = binary(Op::Max, before, here);
  const Ref none = constant_f(kLowest, DType::F32), zero = constant_f(0, DType::F32);
  FoldStores out;
  out.before.push_back(make_store(running.maximum, at, none, without_axis(maxima.ranges, axis)));
  out.chunk.push_back(make_store(running.keep, at, exp_of(before - now), maxima.ranges));
  out.chunk.push_back(make_store(running.gain, at, exp_of(here - now), maxima.ranges));
  for (Ref sum : sums) {
    if (sum->op == Op::ReduceMax) {
      add_maximum(lowering, sum, axis, out);
      continue;
    }
    // At tensor level: the maxima of the chunks, and their parts of the sum.
    const auto [tops, parts] = SoftmaxView(sum);
    const OutputLoops loops = output_loops(parts->shape);
    Refs index = loops.index;
    index.erase(index.begin() + axis);
    const Ref top = lowering.at(tops, loops.index), so_far = lowering.at(sum, index);
    ENSURE(top->op == Op::Load && so_far->op == Op::Load, "a fold of what has no place");
    const LoadView row(top), total(so_far);
    const Ref part = lowering.at(parts, loops.index);
    const Ref more = so_far * load(running.keep, row.offset) + part * load(running.gain, row.offset);
    out.before.push_back(make_store(total.buffer, total.offset, zero, without_axis(loops.ranges, axis)));
    out.chunk.push_back(make_store(total.buffer, total.offset, more, loops.ranges));
  }
  out.chunk.push_back(make_store(running.maximum, at, now, maxima.ranges));
  return out;
}

}  // namespace smelt
