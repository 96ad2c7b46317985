#include "codegen/stage_reads.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "codegen/footprint.h"
#include "codegen/program.h"
#include "graph/index_sum.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr int64_t kFewestSlots = 2;  // one round is used while the next one is on its way
constexpr int64_t kMostSlots = 4;    // more take memory and bring nothing

constexpr int64_t kRoundRange = kFirstReduceRange + 31;  // of no other range

// The loop whose rounds are sent ahead, which may stand for two: `count` rounds of the inner one in each of the outer.
struct Rounds {
  Ref range;
  int64_t count = 1;

  // Whether a term of an index moves with the rounds, and by what.
  bool add_steps(const IndexTerm& term, RoundSteps& steps) const {
    if (term.product == range) {
      steps.outer += count * term.times, steps.inner += term.times;
    } else if (count > 1 && term.product == simplify(range / constant(count))) {
      steps.outer += term.times;
    } else if (count > 1 && term.product == simplify(range % constant(count))) {
      steps.inner += term.times;
    } else {
      return false;
    }
    return true;
  }
};

bool are_pieces(const RoundSteps& steps) { return steps.outer % kCopyBytes == 0 && steps.inner % kCopyBytes == 0; }

// Where a load of a round reads: begin + steps + constant + lanes.
struct StagedLoad {
  Ref load;
  Ref begin;  // what neither threads nor rounds change
  RoundSteps steps;
  int64_t constant = 0;
  std::vector<IndexTerm> lanes;  // that differ from thread to thread
};

bool are_all_lanes(const Refs& ranges) {
  return std::all_of(ranges.begin(), ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::Lane; });
}

std::optional<StagedLoad> staged_load(Ref load, const Rounds& rounds) {
  const auto sum = index_sum(LoadView(load).offset);
  if (!sum) return std::nullopt;
  StagedLoad out{.load = load, .constant = sum->constant};
  IndexSum begin;
  for (const IndexTerm& term : sum->terms) {
    const Refs ranges = ranges_of(term.product);
    const bool is_of_lanes = !ranges.empty() && !reads_memory(term.product) && are_all_lanes(ranges);
    if (rounds.add_steps(term, out.steps)) continue;
    if (is_of_lanes && term.times > 0 && term.product->min == 0) {
      out.lanes.push_back(term);
    } else if (contains(ranges, rounds.range) ||
               std::any_of(ranges.begin(), ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::Lane; })) {
      return std::nullopt;
    } else {
      if (term.times % kCopyBytes != 0) return std::nullopt;
      begin.terms.push_back(term);
    }
  }
  if (out.steps.outer < kCopyBytes || out.steps.inner < 0 || !are_pieces(out.steps)) return std::nullopt;
  out.begin = to_node(begin);
  return out;
}

// Loads that move with the rounds in the same way, of one buffer.
class Region {
 public:
  void add(StagedLoad load) { loads_.push_back(std::move(load)); }
  bool takes(const StagedLoad& load) const {
    return loads_.empty() || (LoadView(load.load).buffer == LoadView(loads_[0].load).buffer &&
                              load.begin == loads_[0].begin && load.steps == loads_[0].steps);
  }

  // Whether the loads lie in slabs, and use most of them.
  bool settle() {
    const RoundSteps& steps = loads_[0].steps;
    step_ = steps.inner > 0 ? steps.inner : steps.outer;
    first_ = loads_[0].constant;
    for (const StagedLoad& l : loads_) first_ = std::min(first_, l.constant);
    if (first_ < 0) return false;
    first_ -= first_ % kCopyBytes;
    find_stride();
    if (stride_ % kCopyBytes != 0) return false;
    used_.assign(static_cast<size_t>(step_), false);
    return std::all_of(loads_.begin(), loads_.end(), [&](const StagedLoad& l) { return mark(l); }) && is_dense() &&
           run() % kCopyBytes == 0;
  }

  // Whether what was read says where it lies, as the weights of an expert: few blocks read the same, so that it comes
  // from memory and not from the cache that all share.
  bool is_chosen() const { return reads_memory(loads_[0].begin); }

  StagedRegion region() const {
    return {.buffer = LoadView(loads_[0].load).buffer,
            .begin = simplify(loads_[0].begin + constant(first_)),
            .steps = loads_[0].steps,
            .run = run(),
            .stride = stride_,
            .slabs = static_cast<int64_t>(slabs_.size())};
  }

  // In a slot of the ring in which the region begins at `at`.
  void replace(const StagedRegion& region, Ref slot, Ref ring, Replacements& loads) const {
    for (const StagedLoad& l : loads_) {
      IndexSum sum{.constant = region.at + in_ring(l.constant - first_)};
      for (const IndexTerm& t : l.lanes) sum.terms.push_back({t.product, in_ring(t.times)});
      loads[l.load] = make_load(l.load->dtype, ring, simplify(slot + to_node(sum)));
    }
  }

 private:
  // Steps as wide as a slab, of threads or between the first loads of two slabs, lead to other slabs.
  void find_stride() {
    const auto add = [&](int64_t step) {
      if (step >= step_) stride_ = std::gcd(stride_, step);
    };
    std::vector<int64_t> constants;
    for (const StagedLoad& l : loads_) {
      constants.push_back(l.constant - first_);
      for (const IndexTerm& t : l.lanes) add(t.times);
    }
    std::sort(constants.begin(), constants.end());
    int64_t begin = 0;
    for (int64_t c : constants)
      if (c - begin >= step_) add(begin = c);
  }

  int64_t slab_of(int64_t bytes) const { return stride_ ? bytes / stride_ : 0; }
  int64_t within_slab(int64_t bytes) const { return stride_ ? bytes % stride_ : bytes; }
  int64_t in_ring(int64_t bytes) const { return slab_of(bytes) * run() + within_slab(bytes); }

  // Up to the last byte that is used: what lies behind it may lie outside of the buffer.
  int64_t run() const { return used_.rend() - std::find(used_.rbegin(), used_.rend(), true); }

  // Notes which slabs a load uses, and which of their bytes.
  bool mark(const StagedLoad& l) {
    std::vector<int64_t> slabs = {slab_of(l.constant - first_)}, places = {within_slab(l.constant - first_)};
    for (const IndexTerm& t : l.lanes) {
      const bool leads_on = slab_of(t.times) > 0;
      if (leads_on && within_slab(t.times) != 0) return false;
      std::vector<int64_t>& of = leads_on ? slabs : places;
      const std::vector<int64_t> before = std::exchange(of, {});
      for (int64_t i = 0; i <= t.product->max; ++i)
        for (int64_t b : before) of.push_back(b + i * (leads_on ? slab_of(t.times) : t.times));
    }
    for (int64_t s : slabs) slabs_.push_back(s);
    std::sort(slabs_.begin(), slabs_.end());
    slabs_.erase(std::unique(slabs_.begin(), slabs_.end()), slabs_.end());
    for (int64_t p : places)
      for (int64_t i = 0; i < size_of(l.load->dtype); ++i) {
        if (p + i >= step_) return false;
        used_[static_cast<size_t>(p + i)] = true;
      }
    return true;
  }

  bool is_dense() const {
    const auto used = std::count(used_.begin(), used_.end(), true);
    return 2 * used >= run() && slabs_.back() + 1 == static_cast<int64_t>(slabs_.size());
  }

  std::vector<StagedLoad> loads_;
  int64_t first_ = 0, step_ = 0, stride_ = 0;
  std::vector<int64_t> slabs_;  // in use, by number
  std::vector<bool> used_;      // bytes of a slab
};

bool has_products(Ref reduce) {
  const Refs nodes = toposort(reduce);
  return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::MatrixDot; });
}

// The loop of the products by the unit, if it is the only one over its range; null if there is none.
Ref loop_of_products(const Refs& stores) {
  Ref found;
  Refs of_others;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (!is_reduce(n->op)) continue;
      const Refs ranges = own_ranges(n);
      if (!has_products(n)) {
        of_others.insert(of_others.end(), ranges.begin(), ranges.end());
        continue;
      }
      if (ranges.size() != 1 || kind_of(ranges[0]) != RangeKind::Reduce) return Ref();
      if (found && found != ranges[0]) return Ref();
      found = ranges[0];
    }
  return found && !contains(of_others, found) ? found : Ref();
}

struct OneLoop {
  Refs stores;
  int64_t count = 1;  // of rounds that were those of the inner one of two loops
};

// Products of halves whose terms two loops go over, as where blocks are longer than rounds: one loop instead.
OneLoop with_one_loop(const Refs& stores) {
  Refs loops;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (is_reduce(n->op) && !products_of_halves({n}).empty()) loops = own_ranges(n);
  if (loops.size() != 2 || !const_int(RangeView(loops[1]).size)) return {stores};
  const int64_t count = RangeView(loops[1]).count();
  const Ref round = make_range(kRoundRange, simplify(RangeView(loops[0]).size * constant(count)), RangeKind::Reduce);
  const Replacements by{{loops[0], simplify(round / constant(count))}, {loops[1], simplify(round % constant(count))}};
  Refs out;
  for (Ref s : stores)
    out.push_back(rebuild(s, [&](Ref original, Ref n) {
      if (!is_reduce(n->op) || own_ranges(original) != loops) return n;
      Refs values;
      for (Ref v : ReduceView(n).values) values.push_back(simplify(substitute(v, by)));
      values.push_back(round);
      return with_sources(n, std::move(values));
    }));
  return {out, count};
}

Refs loads_from_memory(const Refs& stores, Ref round) {
  Refs loads;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (n->op == Op::Load && LoadView(n).buffer->op == Op::Param && depends_on(LoadView(n).offset, round) &&
          !contains(loads, n))
        loads.push_back(n);
  return loads;
}

std::vector<Region> regions_of(const Refs& stores, const Rounds& rounds) {
  std::vector<Region> regions;
  for (Ref load : loads_from_memory(stores, rounds.range)) {
    auto staged = staged_load(load, rounds);
    if (!staged) continue;
    auto at = std::find_if(regions.begin(), regions.end(), [&](const Region& r) { return r.takes(*staged); });
    if (at == regions.end()) at = regions.insert(at, Region());
    at->add(std::move(*staged));
  }
  std::erase_if(regions, [](Region& r) { return !r.settle(); });
  return regions;
}

bool is_product_of_halves(Ref n) { return n->op == Op::MatrixDot && matrix_shape(n->arg.list).of_warpgroup(); }

// Where the columns of a product lie: in each round the steps of each eight of them are a slab.
std::optional<StagedRegion> columns_of(Ref product, const Rounds& rounds) {
  const MatrixShape shape = matrix_shape(product->arg.list);
  const ColumnsView columns(product);
  const auto sum = index_sum(columns.offset);
  if (!sum || columns.buffer->op != Op::Param) return std::nullopt;
  const int64_t run = shape.steps() * 2 * kCoreBytes;
  StagedRegion region{.buffer = columns.buffer, .run = run, .stride = shape.b_stride, .in_bulk = true};
  region.slabs = shape.n / kFragmentGroups;
  IndexSum begin{.constant = sum->constant};
  for (const IndexTerm& term : sum->terms) {
    if (rounds.add_steps(term, region.steps)) continue;
    const Refs ranges = ranges_of(term.product);
    const bool varies = std::any_of(ranges.begin(), ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::Lane; });
    if (varies || contains(ranges, rounds.range) || term.times % kCopyBytes != 0) return std::nullopt;
    begin.terms.push_back(term);
  }
  if (!are_pieces(region.steps) || sum->constant % kCopyBytes != 0) return std::nullopt;
  region.begin = to_node(begin);
  return region;
}

// Regions of columns, which products share that read the same.
class Columns {
 public:
  explicit Columns(const Staging& staging) : staging_(staging) {}

  const StagedRegion* find(const StagedRegion& region) const {
    for (const StagedRegion& r : staging_.regions)
      if (r.in_bulk && r.buffer == region.buffer && r.begin == region.begin && r.steps == region.steps &&
          r.run == region.run && r.stride == region.stride && r.slabs == region.slabs)
        return &r;
    return nullptr;
  }

  // The product with its columns in the ring.
  Ref in_ring(Ref product, const Rounds& rounds, Ref slot) const {
    const StagedRegion* region = find(*columns_of(product, rounds));
    MatrixShape shape = matrix_shape(product->arg.list);
    shape.b_stride = region->run;
    Refs src = product->src;
    const size_t at = ColumnsView(product).at;
    src[at] = staging_.ring;
    src[at + 1] = simplify(slot + constant(region->at));
    return make(Op::MatrixDot, product->dtype, std::move(src), {.list = shape.list()});
  }

 private:
  const Staging& staging_;
};

}  // namespace

int64_t Staging::bulk_copies() const {
  int64_t copies = 0;
  for (const StagedRegion& r : regions) copies += r.in_bulk ? r.slabs : 0;
  return copies;
}

Refs products_of_halves(const Refs& stores) {
  Refs products;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (is_product_of_halves(n) && !contains(products, n)) products.push_back(n);
  return products;
}

bool have_columns_on_chip(const Refs& stores) {
  const Refs products = products_of_halves(stores);
  return std::all_of(products.begin(), products.end(),
                     [](Ref product) { return ColumnsView(product).buffer->op == Op::Local; });
}

StagedNest stage_reads(const Refs& given, const Machine& machine, int64_t local) {
  const auto [stores, count] = with_one_loop(given);
  const Rounds rounds{machine.ring_bytes > 0 ? loop_of_products(stores) : Ref(), count};
  if (!rounds.range) return {given, std::nullopt};
  const std::vector<Region> regions = regions_of(stores, rounds);
  const Refs products = products_of_halves(stores);
  if (products.empty() && std::none_of(regions.begin(), regions.end(), [](const Region& r) { return r.is_chosen(); }))
    return {given, std::nullopt};
  Staging staging{.range = rounds.range, .count = rounds.count};
  const auto add = [&](StagedRegion region) {
    region.at = staging.slot_bytes;
    staging.slot_bytes += region.bytes();
    staging.regions.push_back(std::move(region));
  };
  for (const Region& r : regions) add(r.region());
  Columns columns(staging);
  for (Ref product : products) {
    const auto region = columns_of(product, rounds);
    if (!region) return {given, std::nullopt};
    if (!columns.find(*region)) add(*region);
  }
  if (staging.slot_bytes == 0) return {given, std::nullopt};
  staging.slots = std::min(kMostSlots, machine.ring_bytes / staging.slot_bytes);
  if (staging.slots < kFewestSlots) return {given, std::nullopt};
  staging.ring = make_local(local, DType::Void, staging.slots * staging.slot_bytes);
  if (!products.empty()) staging.signals = make_local(local + 1, DType::Void, staging.slots * kSignalBytes);
  const Ref slot = simplify(rounds.range % constant(staging.slots) * constant(staging.slot_bytes));
  Replacements loads;
  for (size_t i = 0; i < regions.size(); ++i) regions[i].replace(staging.regions[i], slot, staging.ring, loads);
  Refs staged;
  for (Ref s : stores)
    staged.push_back(rebuild(substitute(s, loads), [&](Ref, Ref n) {
      return is_product_of_halves(n) ? columns.in_ring(n, rounds, slot) : n;
    }));
  return {staged, staging};
}

}  // namespace smelt
