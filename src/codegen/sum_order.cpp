#include "codegen/sum_order.h"

#include <algorithm>

#include "codegen/opt_choice.h"
#include "codegen/panel.h"
#include "codegen/products_of_halves.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

constexpr int64_t kMostShares = 64;   // threads of a sum whose terms do not lie side by side
constexpr int64_t kLeastTerms = 4;    // that a partial sum should have
constexpr int64_t kFewGroups = 16;    // of a sum whose shares may have half as many
constexpr int64_t kFewestGroups = 2;  // of one that is shared as well: beside a longer one each thread would make it
// Threads take a power of two of the shares, or all. What they leave is registers and written out, so it must be few.
constexpr int64_t kMostOddShares = 9;

// Whether it is a step of few, as tokens of a batch are that follow each other: its sums are those of one token.
bool is_one_of_few_steps(const Refs& stores) {
  const Ref steps = chunk_range(stores);
  return steps && is_const(RangeView(steps).size);
}

// Many rows are computed side by side, and parts of a tile are blocks of sums: those hide the latency. A tile of
// threads is a block, and shares its sums.
bool hides_latency(const OptChoice& c) {
  if (c.is_part_of_tile())
    return !c.machine.has_threads() && !is_one_of_few_steps(c.stores) && !goes_in_sweeps(c.stores);
  const Refs axes = c.output_axes();
  return std::any_of(axes.begin(), axes.end(), [](Ref r) { return !is_const(RangeView(r).size); });
}

int64_t odd_part(int64_t n) { return n / (n & -n); }

// Whether terms are sums of integers, as groups of weights in block formats are.
bool adds_groups(Ref reduce) {
  Refs inner = reductions_of({ReduceView(reduce).values.begin(), ReduceView(reduce).values.end()});
  return !inner.empty() && std::none_of(inner.begin(), inner.end(), has_order);
}

// As many threads as a sum can be shared out to. Of groups each wants some: a block has few threads for an output, and
// what is left of the shares would be written out.
int64_t most_shares(Ref reduce) {
  if (!adds_groups(reduce)) return kMostShares;
  int64_t terms = 1;
  for (Ref r : own_ranges(reduce)) terms *= RangeView(r).most();
  if (terms == kFewestGroups) return terms;
  return std::min(kMostShares, terms / (terms < kFewGroups ? 2 : kLeastTerms));
}

// The same for one of its ranges. A sum of groups is shared out along several: the first may leave an odd number of
// shares, the others halve what is left (expand.cpp).
int64_t shares_of(Ref reduce, Ref range) {
  const int64_t size = known_divisor(RangeView(range).size), before = partial_registers(reduce);
  if (before > 1 && !adds_groups(reduce)) return 1;
  for (int64_t n = std::min(size, most_shares(reduce) / before); n > 1; --n)
    if (size % n == 0 && odd_part(n) <= (before == 1 ? kMostOddShares : 1)) return n;
  return 1;
}

// What threads that share the sum along this range have in common: words that each of them loads, and conditions that
// differ between them. Bits of a group's place in a superblock select words, halves of words, or a formula.
int in_common(Ref reduce, Ref range) {
  int count = 0;
  for (Ref n : toposort(ReduceView(reduce).values[0])) {
    if (n->op == Op::Load) count += !depends_on(n, range);
    if (n->op == Op::Where) count += depends_on(n->src[0], range);
  }
  return count;
}

int64_t chains_of(Ref range, int64_t lanes, const Machine& machine) {
  const Ref length = RangeView(range).size;
  int64_t chains = machine.has_threads() ? machine.sum_warps : machine.chains;
  while (machine.has_threads() && chains > 1 && known_divisor(length) % (lanes * chains) != 0) --chains;
  if (known_divisor(length) % (lanes * chains) != 0) return 1;
  const auto size = const_int(length);
  const int64_t least = machine.has_threads() ? kLeastTerms / 2 : kLeastTerms;
  return !size || *size >= lanes * chains * least ? chains : 1;
}

bool has_lanes(const Refs& stores, Ref range) {
  const Refs reductions = reductions_of(stores);
  return std::any_of(reductions.begin(), reductions.end(),
                     [&](Ref n) { return contains(ReduceView(n).ranges, range) && varies_in_lanes(n); });
}

// Whether a term is a sum itself, whose time hides the latency of adding it. Threads share these, too.
bool is_slow_itself(const OptChoice& c, Ref reduce) { return holds_reduction(reduce) && !c.machine.has_threads(); }

// Results along the innermost output axis, all parts of it: rows of the matrix that a sum reads. The axes around it are
// tokens, and experts of tokens: how many are computed together must not count.
int64_t matrix_rows(const OptChoice& c) {
  const Refs axes = c.output_axes();
  int64_t rows = 1;
  for (Ref r : axes)
    if (whole_range(RangeView(r).number) == whole_range(RangeView(axes.back()).number))
      rows *= const_int(RangeView(r).size).value_or(1);
  return rows;
}

// Whether threads that share this sum, for each row of its matrix, fill a machine.
bool is_shared_enough(const OptChoice& c, Ref reduce) {
  return partial_registers(reduce) * matrix_rows(c) >= c.machine.processors * c.machine.processor_threads;
}

// The range along which the terms of a sum lie side by side, if they are not in lanes yet.
Ref range_of_neighbours(const OptChoice& c, Ref reduce) {
  Ref best;
  int best_score = 0;
  const Ref term = ReduceView(reduce).values[0];
  if (varies_in_lanes(term) || last_partials(reduce)) return best;
  for (Ref r : own_ranges(reduce)) {
    if (c.lanes_for(r) == 0 || !why_no_partials(c.stores, r, lane_rules(c.machine)).empty() || has_lanes(c.stores, r))
      continue;
    const Walk w = walk({term}, r);
    const int score = w.neighbours - 2 * w.scattered;
    if (score > best_score) best_score = score, best = r;
  }
  return best;
}

// Outputs that lie beside a panel are in lanes: each lane has a sum of its own.
bool has_lanes_beside_panel(const Refs& stores, const Machine& machine) {
  OptChoice c{.stores = stores, .machine = machine};
  if (c.is_part_of_tile()) return false;
  choose_panel(c);
  choose_pack(c);
  choose_local(c);
  return has_panel(c.opts) && c.has_local;
}

class Partials {
 public:
  Partials(const Refs& stores, const Machine& machine, bool is_local) : stores_(stores), whole_{stores, machine} {
    if (!is_local && has_lanes_beside_panel(stores, machine)) return;
    OptChoice c{.stores = stores, .machine = machine};
    choose_pack(c);
    choose_local(c);
    choose_dot(c);
    while (add_lanes(c)) {
    }
    if (hides_latency(whole_)) return;
    while (add_chains(c)) {
    }
  }

  Refs stores() const { return stores_; }

 private:
  bool add_lanes(OptChoice& c) {
    for (Ref reduce : reductions_of(c.stores)) {
      if (!has_order(reduce) || (c.machine.has_threads() && adds_groups(reduce))) continue;
      const Ref range = range_of_neighbours(c, reduce);
      if (!range) continue;
      const int64_t lanes = c.lanes_for(range);
      cut(c, range,
          lanes * (hides_latency(whole_) || is_slow_itself(c, reduce) ? 1 : chains_of(range, lanes, c.machine)));
      return true;
    }
    return false;
  }

  bool add_chains(OptChoice& c) {
    if (c.machine.has_threads()) return share_out(c);
    for (Ref reduce : reductions_of(c.stores)) {
      if (!has_order(reduce) || is_slow_itself(c, reduce)) continue;
      const Ref range = own_ranges(reduce).back();
      if (kind_of(range) != RangeKind::Reduce || chains_of(range, 1, c.machine) == 1) continue;
      if (!why_no_partials(c.stores, range, lane_rules(c.machine)).empty()) continue;
      cut(c, range, chains_of(range, 1, c.machine));
      return true;
    }
    return false;
  }

  // The sum that most threads can share, of those that are part of each other, and of its ranges the one that most of
  // them take, or else that leaves them least in common.
  bool share_out(OptChoice& c) {
    Ref best;
    std::pair<int64_t, int> most{1, 0};
    for (Ref reduce : reductions_of(c.stores)) {
      if (!has_order(reduce) || (last_partials(reduce) && is_shared_enough(c, reduce))) continue;
      for (Ref r : own_ranges(reduce)) {
        if (kind_of(r) != RangeKind::Reduce || !why_no_partials(c.stores, r, lane_rules(c.machine)).empty()) continue;
        const std::pair<int64_t, int> score{shares_of(reduce, r), -in_common(reduce, r)};
        if (score.first > 1 && score > most) best = r, most = score;
      }
    }
    if (best) cut(c, best, most.first);
    return static_cast<bool>(best);
  }

  // Ranges of float sums are the same in both: none of the options above cuts them.
  void cut(OptChoice& c, Ref range, int64_t count) {
    c.stores = in_partials(c.stores, range, count);
    stores_ = in_partials(stores_, range, count);
  }

  Refs stores_;
  const OptChoice whole_;
};

// The ranges of a sum's partial results: its last ones.
Refs partials_of(Ref sum) {
  Refs partials = own_ranges(sum);
  std::erase_if(partials, [](Ref r) { return !is_partial(r); });
  return partials;
}

bool is_sum_of_partials(Ref n) { return has_order(n) && !partials_of(n).empty(); }

Ref without_partials(Ref sum) {
  Refs ranges = own_ranges(sum);
  std::erase_if(ranges, is_partial);
  return ranges.empty() ? ReduceView(sum).values[0] : with_ranges(sum, ranges);
}

// sum(x; i, p) + sum(y; j, q)  ->  sum(sum(x; i) + sum(y; j); p): partial sums are combined once.
Ref join_partials(Ref n) {
  if (n->op != Op::Add) return n;
  const auto [x, y] = BinaryView(n);
  if (!is_sum_of_partials(x) || !is_sum_of_partials(y)) return n;
  const Refs p = partials_of(x), q = partials_of(y);
  const auto same_size = [](Ref a, Ref b) { return RangeView(a).size == RangeView(b).size; };
  if (!std::equal(p.begin(), p.end(), q.begin(), q.end(), same_size)) return n;
  Replacements renamed;
  for (size_t i = 0; i < p.size(); ++i) renamed[q[i]] = p[i];
  return make_reduce(Op::ReduceSum, n->dtype,
                     {binary(Op::Add, without_partials(x), substitute(without_partials(y), renamed))}, p);
}

}  // namespace

bool has_order(Ref reduce) { return reduce->op == Op::ReduceSum && is_float(reduce->dtype) && !adds_halves(reduce); }

int64_t partial_registers(Ref reduce) {
  int64_t count = 1;
  for (Ref r : partials_of(reduce)) count *= RangeView(r).count();
  return count;
}

Refs order_sums(const Refs& stores, const Machine& machine, bool is_local) {
  Refs out;
  for (Ref store : Partials(stores, machine, is_local).stores())
    out.push_back(rebuild(store, [](Ref, Ref n) { return join_partials(n); }));
  return out;
}

}  // namespace smelt
