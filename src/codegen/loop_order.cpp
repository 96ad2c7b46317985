#include "codegen/loop_order.h"

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/dependence.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr size_t kMostLoops = 4;        // with a block loop, 5! orders
constexpr double kWorthBlocking = 0.9;  // of the bytes without blocks
constexpr int64_t kEvenShares = 4;      // blocks that most numbers of workers share out evenly,
constexpr double kUnevenShare = 1.25;   // and what others are counted as, where work inside differs

double trips_of(Ref range) {
  return static_cast<double>(
      const_int(range->src[0]).value_or(std::max<int64_t>(range->src[0]->max, 1)));
}

// Whether the value of an offset moves with a range: by itself, or (through_loads) by what is loaded there. How long
// other loops are does not count.
bool moves_with(Ref offset, Ref range, bool through_loads) {
  if (offset->op == Op::Range) return offset == range;
  if (offset->op == Op::Load && !through_loads) return false;
  return std::any_of(offset->src.begin(), offset->src.end(),
                     [&](Ref s) { return moves_with(s, range, through_loads); });
}

// What one load reads in all: `bytes` for fixed values of the loops.
struct Stream {
  double bytes = 1;
  double places = 0;  // among which a jump chooses; 0: not known
  Refs moves;         // loops that its offset moves with
  Refs jumps;         // loops that choose, by a loaded index, where it reads
};

std::vector<Stream> streams_of(const Refs& stores, const Refs& loops) {
  std::vector<Stream> out;
  std::set<std::pair<const Node*, const Node*>> seen;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (n->op != Op::Load || !seen.insert({n->src[0].get(), n->src[1].get()}).second) continue;
      Stream stream{.bytes = static_cast<double>(size_of(n->dtype))};
      for (Ref r : ranges_of(n->src[1]))
        if (!contains(loops, r) && moves_with(n->src[1], r, true)) stream.bytes *= trips_of(r);
      for (Ref r : loops)
        if (moves_with(n->src[1], r, false))
          stream.moves.push_back(r);
        else if (moves_with(n->src[1], r, true))
          stream.jumps.push_back(r);
      if (n->src[0]->op == Op::Param && !n->src[0]->shape.empty()) {
        double all = static_cast<double>(size_of(n->src[0]->dtype)), one = stream.bytes;
        for (Ref d : n->src[0]->shape) all *= static_cast<double>(const_int(d).value_or(d->max));
        for (Ref r : stream.moves) one *= trips_of(r);
        stream.places = std::max(1.0, all / one);
      }
      out.push_back(std::move(stream));
    }
  return out;
}

// Bytes that a stream brings into the cache when the loops run in this order, outermost first. A loop that does not
// move the stream repeats it, unless what is read inside fits the cache. A loop that jumps reads something else each
// time, but where that fits the cache, no place more than once: whoever jumps often among few places (tokens among
// experts) sorts.
double traffic(const Stream& s, const Refs& order, double cache) {
  double inside = s.bytes;
  for (size_t i = order.size(); i-- > 0;) {
    const double trips = trips_of(order[i]);
    const bool fits = inside <= cache;
    if (contains(s.moves, order[i])) {
      inside *= trips;
    } else if (contains(s.jumps, order[i])) {
      inside *= fits && s.places > 0 ? std::min(trips, s.places) : trips;
    } else if (!fits) {
      inside *= trips;
    }
  }
  return inside;
}

class OrderSearch {
 public:
  OrderSearch(const Refs& stores, Refs loops, double cache)
      : streams_(streams_of(stores, loops)), loops_(std::move(loops)), cache_(cache) {}

  struct Best {
    Refs order;
    double bytes = 0;
  };

  // The first of the best orders, `loops` being the first that is tried. The outermost loop is shared out in equal
  // parts, so it is not one along which the work differs, if there is another.
  Best run(const Refs& ragged) const {
    std::vector<size_t> at(loops_.size());
    for (size_t i = 0; i < at.size(); ++i) at[i] = i;
    Best best;
    do {
      Refs order;
      for (size_t i : at) order.push_back(loops_[i]);
      if (contains(ragged, order[0]) && ragged.size() < loops_.size()) continue;
      const double bytes = total(order);
      if (best.order.empty() || bytes < best.bytes) best = {std::move(order), bytes};
    } while (std::next_permutation(at.begin(), at.end()));
    return best;
  }

 private:
  double total(const Refs& order) const {
    double bytes = 0;
    for (const Stream& s : streams_) bytes += traffic(s, order, cache_);
    return bytes;
  }

  std::vector<Stream> streams_;
  Refs loops_;
  double cache_;
};

Refs serial_loops(const Refs& stores) {
  Refs loops;
  for (Ref r : axes_of(stores))
    if (is_output_axis(stores, r) && kind_of(r) == RangeKind::Loop) loops.push_back(r);
  return loops;
}

// Loops over the larger tensors first: what is done where the bytes do not tell.
void sort_by_size(const Refs& stores, Refs& loops) {
  const auto greatest = [&](Ref axis) {
    int64_t bytes = 0;
    for (Ref s : stores)
      for (Ref n : toposort(s))
        if (n->op == Op::Load && depends_on(n->src[1], axis))
          bytes = std::max(bytes, n->src[1]->max);
    return bytes;
  };
  std::stable_sort(loops.begin(), loops.end(),
                   [&](Ref a, Ref b) { return greatest(a) > greatest(b); });
}

struct Plan {
  std::vector<Opt> opts;
  double bytes = 0;
};

int position_of(const Refs& stores, Ref range) {
  const Refs axes = axes_of(stores);
  return static_cast<int>(std::find(axes.begin(), axes.end(), range) - axes.begin());
}

// The best order of the nest as it is.
Plan plan_order(Refs stores, double cache) {
  Refs loops = serial_loops(stores), ragged;
  for (Ref r : loops)
    if (is_ragged(stores, r)) ragged.push_back(r);
  sort_by_size(stores, loops);
  std::stable_partition(loops.begin(), loops.end(), [&](Ref r) { return !contains(ragged, r); });
  Plan plan;
  if (loops.size() > 1 && loops.size() <= kMostLoops + 1) {
    auto best = OrderSearch(stores, loops, cache).run(ragged);
    loops = std::move(best.order);
    plan.bytes = best.bytes;
  }
  for (size_t i = loops.size(); i-- > 0;) {
    plan.opts.push_back({OptKind::Front, position_of(stores, loops[i])});
    stores = apply_opt(stores, plan.opts.back());
  }
  return plan;
}

}  // namespace

bool is_ragged(const Refs& stores, Ref axis) {
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (n->op == Op::Range && n != axis && depends_on(n->src[0], axis)) return true;
  return false;
}

std::vector<Opt> choose_loop_order(const Refs& stores, int64_t cache_bytes) {
  const auto cache = static_cast<double>(cache_bytes);
  const Refs loops = serial_loops(stores);
  Plan best = plan_order(stores, cache);
  if (loops.size() < 2 || loops.size() > kMostLoops) return best.opts;
  // Workers take equal numbers of tasks. Where those differ in work (tiles of experts, the unused ones last), a share
  // that ends inside a block is a larger or smaller one.
  const bool uneven =
      std::any_of(loops.begin(), loops.end(), [&](Ref r) { return is_ragged(stores, r); });
  double wanted = best.bytes * kWorthBlocking;
  for (Ref r : loops)
    for (int64_t n : {32, 24, 16, 12, 8, 6, 4}) {
      const auto size = const_int(r->src[0]);
      const Opt block{OptKind::Split, position_of(stores, r), n};
      if (!size || *size <= n || !why_not(stores, block).empty()) continue;
      Plan blocked = plan_order(apply_opt(stores, block), cache);
      const double bytes = blocked.bytes * (uneven && *size / n % kEvenShares ? kUnevenShare : 1);
      if (bytes >= wanted) continue;
      wanted = bytes;
      blocked.opts.insert(blocked.opts.begin(), block);
      best = std::move(blocked);
    }
  return best.opts;
}

}  // namespace smelt
