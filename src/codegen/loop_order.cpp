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
constexpr int64_t kEvenShares = 4;      // a multiple of so many blocks makes equal shares for most numbers of workers
constexpr double kUnevenShare = 1.25;   // the longest share over the mean one, where tasks differ in work
constexpr int64_t kMostOfBlock = 32, kFewestOfBlock = 4;  // iterations of a loop
// Tiles of a prompt that read the same expert one after the other, as the model sorts tokens by experts: at least,
// where a prompt is long. A kernel does not know how many experts there are.
constexpr double kTilesOfExpert = 4;

double trips_of(Ref range) { return static_cast<double>(std::max<int64_t>(RangeView(range).most(), 1)); }

// Whether an offset depends on a range: by itself, or (through_loads) through an index that is loaded. Dependence
// through the trip counts of other loops does not count.
bool moves_with(Ref offset, Ref range, bool through_loads) {
  if (offset->op == Op::Range) return offset == range;
  if (offset->op == Op::Load && !through_loads) return false;
  return std::any_of(offset->src.begin(), offset->src.end(),
                     [&](Ref s) { return moves_with(s, range, through_loads); });
}

// What one load reads in all: `bytes` in an iteration of the loops.
struct Stream {
  double bytes = 1;
  Refs moves;  // loops that its offset depends on
  Refs jumps;  // loops that it depends on through a loaded index
};

std::vector<Stream> streams_of(const Refs& stores, const Refs& loops) {
  std::vector<Stream> out;
  std::set<std::pair<const Node*, const Node*>> seen;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (n->op != Op::Load) continue;
      const auto [buffer, offset] = LoadView(n);
      if (!seen.insert({buffer.get(), offset.get()}).second) continue;
      Stream stream{.bytes = static_cast<double>(size_of(n->dtype))};
      for (Ref r : ranges_of(offset))
        if (!contains(loops, r) && moves_with(offset, r, true)) stream.bytes *= trips_of(r);
      for (Ref r : loops)
        if (moves_with(offset, r, false))
          stream.moves.push_back(r);
        else if (moves_with(offset, r, true))
          stream.jumps.push_back(r);
      out.push_back(std::move(stream));
    }
  return out;
}

// Memory traffic of a stream with the loops in this order, outermost first. From the innermost loop outwards: the
// working set grows with each loop that moves the stream. A loop that does not, reads the same again, from memory where
// the working set does not fit the cache. A loop that jumps has another working set in each iteration; over tiles of a
// prompt, in every fourth.
double traffic(const Stream& s, const Refs& order, double cache) {
  double inside = s.bytes;
  for (size_t i = order.size(); i-- > 0;) {
    const double trips = trips_of(order[i]);
    const bool fits = inside <= cache;
    if (contains(s.moves, order[i])) {
      inside *= trips;
    } else if (contains(s.jumps, order[i])) {
      inside *= fits && !is_const(RangeView(order[i]).size) ? std::max(1.0, trips / kTilesOfExpert) : trips;
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

  // The order with the least traffic; of equal ones the first, and `loops` itself comes first. The outermost loop is
  // shared out in equal parts, so it is not a ragged one if there is another.
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

// Loops over the larger tensors first: the order that stands where all have the same traffic.
void sort_by_size(const Refs& stores, Refs& loops) {
  const auto greatest = [&](Ref axis) {
    int64_t bytes = 0;
    for (Ref s : stores)
      for (Ref n : toposort(s))
        if (n->op == Op::Load && depends_on(LoadView(n).offset, axis)) bytes = std::max(bytes, LoadView(n).offset->max);
    return bytes;
  };
  std::stable_sort(loops.begin(), loops.end(), [&](Ref a, Ref b) { return greatest(a) > greatest(b); });
}

struct Plan {
  std::vector<Opt> opts;
  double bytes = 0;
};

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
    plan.opts.push_back({OptKind::Front, id_of(stores, loops[i])});
    stores = apply_opt(stores, plan.opts.back());
  }
  return plan;
}

}  // namespace

bool is_ragged(const Refs& stores, Ref axis) {
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (n->op == Op::Range && n != axis && depends_on(RangeView(n).size, axis)) return true;
  return false;
}

std::vector<Opt> choose_loop_order(const Refs& stores, int64_t cache_bytes) {
  const auto cache = static_cast<double>(cache_bytes);
  const Refs loops = serial_loops(stores);
  Plan best = plan_order(stores, cache);
  if (loops.size() < 2 || loops.size() > kMostLoops) return best.opts;
  // Workers take equal numbers of tasks. Where tasks differ in work (tiles of experts, the unused ones last), shares
  // that do not end with a block are unequal.
  const bool uneven = std::any_of(loops.begin(), loops.end(), [&](Ref r) { return is_ragged(stores, r); });
  double wanted = best.bytes * kWorthBlocking;
  for (Ref r : loops)
    for (int64_t n = kMostOfBlock; n >= kFewestOfBlock; --n) {
      const auto size = const_int(RangeView(r).size);
      const Opt block{OptKind::Split, id_of(stores, r), n};
      if (!size || *size <= n || *size % n != 0) continue;
      OptResult cut = try_opt(stores, block);
      if (!cut) continue;
      Plan blocked = plan_order(std::move(cut.stores), cache);
      const double bytes = blocked.bytes * (uneven && *size / n % kEvenShares ? kUnevenShare : 1);
      if (bytes >= wanted) continue;
      wanted = bytes;
      blocked.opts.insert(blocked.opts.begin(), block);
      best = std::move(blocked);
    }
  return best.opts;
}

}  // namespace smelt
