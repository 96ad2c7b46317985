#include <algorithm>
#include <functional>

#include "codegen/nest_emitter.h"
#include "codegen/term_of_sum.h"
#include "graph/constants.h"
#include "graph/matrix_shape.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

// Sums of a group that can stay in the registers of a matrix unit, by register: those of each product of fragments
// whose sums are all added up here, or chain of them.
std::vector<Refs> sums_in_unit(const Refs& group) {
  std::map<uint64_t, Refs> by_product;  // in an order that does not depend on addresses
  for (Ref n : group) {
    const auto terms = ReduceView(n).values;
    if (n->op != Op::ReduceSum || terms.size() != 1 || terms[0]->op != Op::MatrixItem) continue;
    const auto [product, number, lane] = MatrixItemView(terms[0]);
    if (lane || !begins_at_zero(product)) continue;
    Refs& sums = by_product[product->key];
    sums.resize(static_cast<size_t>(matrix_shape(product->arg.list).sums()));
    sums[static_cast<size_t>(*const_int(number))] = n;
  }
  std::vector<Refs> complete;
  for (const auto& [key, sums] : by_product)
    if (std::all_of(sums.begin(), sums.end(), [](Ref n) { return static_cast<bool>(n); })) complete.push_back(sums);
  return complete;
}

}  // namespace

// The loop of a group of reductions that have the same ranges: their accumulators stand in front of it, at `depth_`.
class NestEmitter::ReductionLoop {
 public:
  ReductionLoop(NestEmitter& nest, const Refs& group, int depth) : nest_(nest), group_(group), depth_(depth) {}

  void emit() {
    for (Ref n : group_) open_accumulators(n);
    Refs ranges = own_ranges(group_[0]);
    const bool is_staged = nest_.is_staged(ranges);
    if (has_shared_rounds(group_[0])) ranges.pop_back();  // threads have its elements
    if (is_staged) nest_.send_first_rounds();
    const int before = nest_.least_depth_;
    for (Ref r : ranges) {
      nest_.open_loop(r);
      if (is_all_or_none(r)) nest_.least_depth_ = nest_.top();
    }
    if (is_staged) nest_.send_next_round();
    if (nest_.ahead_ && depth_ > 0 && nest_.facts_.height(group_[0]) == 1) nest_.ask_ahead();
    for (const Accumulator& a : accumulators_) old_.push_back(nest_.get(a.id, a.dtype, a.lanes));
    ask_for_values();
    step_maxima();
    for (const auto& [n, i] : first_of_) accumulators_[i].next = old_[i];
    step_sums(step_sums_in_unit());
    for (Ref n : group_) {
      if (n->op == Op::SoftmaxSum) step_softmax(n);
      if (n->op == Op::TopK) step_topk(n, ranges);
    }
    for (const Accumulator& a : accumulators_) nest_.set(a.id, a.next, a.dtype, a.lanes);
    for (size_t i = 0; i < ranges.size(); ++i) nest_.close_scope();
    nest_.least_depth_ = before;
    nest_.rescale_.clear();
    for (Ref n : group_) tell_result(n);
  }

 private:
  struct Accumulator {
    DType dtype;
    int lanes, id;
    Value next;
  };

  struct Maximum {
    Refs scores;  // of a round
    size_t accumulator;
    std::vector<Value> so_far;  // before the round, and behind each score
    Value keep, weight;         // if a warp shares the round: those of a thread's element
  };

  size_t open(DType dtype, int lanes, Value initial) {
    accumulators_.push_back({dtype, lanes, nest_.new_accumulator(depth_, initial, dtype, lanes), {}});
    return accumulators_.size() - 1;
  }

  // The scores of a round: of a maximum one, of a softmax every other value.
  static Refs scores_of(Ref n) {
    if (has_shared_rounds(n)) return {SharedRoundView(n).score};
    const auto values = ReduceView(n).values;
    Refs scores;
    for (size_t k = 0; k < values.size(); k += n->op == Op::SoftmaxSum ? 2 : values.size()) scores.push_back(values[k]);
    return scores;
  }

  // A maximum that a softmax needs too is there once.
  Maximum& maximum_of(Ref n) {
    const Refs scores = scores_of(n);
    const auto at = std::find_if(maxima_.begin(), maxima_.end(), [&](const Maximum& m) { return m.scores == scores; });
    if (at != maxima_.end()) return *at;
    const Value lowest = nest_.identity(Op::ReduceMax, scores[0]->dtype);
    maxima_.push_back({scores, open(scores[0]->dtype, nest_.facts_.lanes(scores[0]), lowest), {}, {}, {}});
    return maxima_.back();
  }

  void open_accumulators(Ref n) {
    const Ref first = ReduceView(n).values[0];
    if (n->op == Op::ReduceMax) maximum_of(n);
    if (n->op == Op::ReduceSum)
      first_of_[n.get()] = open(n->dtype, nest_.facts_.lanes(n), nest_.identity(n->op, n->dtype));
    if (n->op == Op::SoftmaxSum) {
      maximum_of(n);
      first_of_[n.get()] = open(n->dtype, nest_.facts_.lanes(n), nest_.number(0, n->dtype));
    }
    if (n->op == Op::TopK)
      for (int64_t j = 0; j < top_count(n); ++j) {
        const size_t i = open(first->dtype, 1, nest_.number(kLowest, first->dtype));
        open(DType::I32, 1, nest_.value(constant(j, DType::I32)));
        if (j == 0) first_of_[n.get()] = i;
      }
  }

  Value& next_of(Ref n) { return accumulators_[first_of_[n.get()]].next; }

  // Values of a round that a warp shares: before its threads wait for each other, so that none waits twice.
  void ask_for_values() {
    for (Ref n : group_)
      if (has_shared_rounds(n))
        for (Ref value : SharedRoundView(n).values) nest_.value(value);
  }

  void step_maxima() {
    for (Maximum& m : maxima_) {
      if (has_shared_rounds(group_[0])) {
        step_shared_maximum(m);
        continue;
      }
      Accumulator& a = accumulators_[m.accumulator];
      m.so_far = {old_[m.accumulator]};
      for (Ref score : m.scores) m.so_far.push_back(nest_.alu(Op::Max, a.dtype, {m.so_far.back(), nest_.value(score)}));
      a.next = m.so_far.back();
    }
  }

  // Each thread finds the greatest score before its own one: in each step it learns that of twice as many.
  void step_shared_maximum(Maximum& m) {
    Accumulator& a = accumulators_[m.accumulator];
    const auto largest = [&](Value x, Value y) { return nest_.alu(Op::Max, a.dtype, {x, y}); };
    const Ref lane = SharedRoundView(group_[0]).lane;
    const Value own = nest_.value(m.scores[0]), number = nest_.value(lane);
    Value before = old_[m.accumulator], all = own;
    for (int64_t bits = 1; bits < RangeView(lane).count(); bits *= 2) {
      const Value others = nest_.of_other_thread(Inst::Shuffle, all, a.dtype, bits);
      const Value half = nest_.alu(Op::Mod, DType::I64, {number, nest_.integer(2 * bits)});
      const Value is_behind = nest_.alu(Op::Lt, DType::Bool, {nest_.integer(bits - 1), half});
      before = nest_.alu(Op::Where, a.dtype, {is_behind, largest(before, others), before});
      all = largest(all, others);
    }
    const Value greatest = largest(before, own);
    m.keep = nest_.exp_of_difference(before, greatest, a.dtype);
    m.weight = nest_.exp_of_difference(own, greatest, a.dtype);
    a.next = largest(old_[m.accumulator], all);
  }

  // Returns the sums that this has stepped.
  std::set<const Node*> step_sums_in_unit() {
    std::set<const Node*> stepped;
    for (const Refs& sums : sums_in_unit(group_)) {
      std::vector<Value> so_far;
      for (Ref n : sums) so_far.push_back(old_[first_of_[n.get()]]);
      const Value product = nest_.matrix_dot(MatrixItemView(ReduceView(sums[0]).values[0]).product, so_far);
      for (Ref n : sums) {
        next_of(n) = nest_.matrix_item(ReduceView(n).values[0], product);
        stepped.insert(n.get());
      }
    }
    return stepped;
  }

  // The first terms of all sums, then the second ones, and so on: those side by side share what they read.
  void step_sums(const std::set<const Node*>& stepped) {
    size_t most = 0;
    for (Ref n : group_)
      if (n->op == Op::ReduceSum) most = std::max(most, ReduceView(n).values.size());
    for (size_t k = 0; k < most; ++k) {
      Refs sums, terms;
      for (Ref n : group_)
        if (n->op == Op::ReduceSum && !stepped.contains(n.get()) && k < ReduceView(n).values.size())
          sums.push_back(n), terms.push_back(ReduceView(n).values[k]);
      nest_.compute_terms(terms);
      for (size_t i = 0; i < sums.size(); ++i) next_of(sums[i]) = nest_.sum_with(next_of(sums[i]), terms[i]);
    }
  }

  // Threads hand around what they have made of their elements, in the order of these.
  void step_shared_softmax(Ref n) {
    const SharedRoundView round(n);
    const Maximum& m = maximum_of(n);
    const auto product = [&](Value weight, Ref value) {
      return nest_.alu(Op::Mul, n->dtype, {weight, nest_.value(value)});
    };
    const Value own = round.has_all_values() ? m.weight : product(m.weight, round.values[0]);
    Value sum = old_[first_of_[n.get()]];
    for (int64_t k = 0; k < RangeView(round.lane).count(); ++k) {
      const Value keep = nest_.of_other_thread(Inst::WarpItem, m.keep, n->dtype, k),
                  item = nest_.of_other_thread(Inst::WarpItem, own, n->dtype, k),
                  term = round.has_all_values() ? product(item, round.values[static_cast<size_t>(k)]) : item;
      sum = nest_.alu(Op::Fma, n->dtype, {sum, keep, term});
    }
    next_of(n) = sum;
  }

  void step_softmax(Ref n) {
    if (has_shared_rounds(n)) return step_shared_softmax(n);
    const auto terms = ReduceView(n).values;
    const std::vector<Value>& maxima = maximum_of(n).so_far;
    Value sum = old_[first_of_[n.get()]];
    for (size_t k = 0; k + 1 < maxima.size(); ++k)
      sum = nest_.softmax_step(n, terms.subspan(2 * k, 2), sum, maxima[k], maxima[k + 1]);
    next_of(n) = sum;
  }

  void step_topk(Ref n, const Refs& ranges) {
    const size_t first = first_of_[n.get()];
    const Value index = nest_.value(cast(flat_index(ranges), DType::I32));
    const auto next = nest_.topk_step(ReduceView(n).values[0], index, top_count(n), &old_[first]);
    for (size_t j = 0; j < next.size(); ++j) accumulators_[first + j].next = next[j];
  }

  Value result(size_t i) {
    const Accumulator& a = accumulators_[i];
    return nest_.get(a.id, a.dtype, a.lanes);
  }

  // Of a top-k the items are results, and it itself has no value.
  void tell_result(Ref n) {
    Value& told = nest_.values_[n.get()];
    if (n->op == Op::TopK) {
      for (int64_t j = 0; j < top_count(n); ++j)
        nest_.topk_items_[{n.get(), j}] = result(first_of_[n.get()] + static_cast<size_t>(2 * j) + 1);
      told = {-1, depth_, 1};
    } else {
      told = result(n->op == Op::ReduceMax ? maximum_of(n).accumulator : first_of_[n.get()]);
    }
  }

  NestEmitter& nest_;
  const Refs& group_;
  const int depth_;
  std::vector<Accumulator> accumulators_;
  std::vector<Value> old_;  // of them, before this round
  std::vector<Maximum> maxima_;
  std::map<const Node*, size_t> first_of_;  // by sum or top-k, which has a value and an index for each item
};

// A sum that a mask drops or keeps as a whole, when all of its terms are written out: what these are does not depend on
// the loop, and would be read and multiplied in front of it.
bool NestEmitter::is_all_or_none(Ref range) {
  const Ref size = RangeView(range).size;
  return size->op == Op::Cast && operand_of(size)->dtype == DType::Bool;
}

int NestEmitter::depth_of(const RangeSet& ranges) const {
  int depth = 0;
  for (const Node* r : ranges)
    if (auto it = values_.find(r); it != values_.end() && kind_of(Ref(r)) != RangeKind::Lane)
      depth = std::max(depth, it->second.depth);
  return depth;
}

// As far out as its ranges allow, but not before what a nest of the tile writes for it. What lies in a ring is that of
// the task which sends it there.
int NestEmitter::depth_of_reduction(Ref n) {
  int depth = std::max(depth_of(facts_.free_ranges(n)), least_depth_);
  if (is_staged(own_ranges(n)))
    for (const StagedRegion& region : staging_->regions)
      depth = std::max(depth, depth_of(facts_.free_ranges(region.begin)));
  return passed_on_.contains(n.get()) ? std::max(depth, floor_) : depth;
}

// Emits the loop of a reduction, together with those of its siblings that live at the same depth, just inside the
// scope of that depth.
void NestEmitter::emit_reductions(Ref first) {
  const int depth = depth_of_reduction(first);
  Refs group;
  for (Ref n : siblings_.at({own_ranges(first), facts_.height(first)}))
    if (!values_.contains(n.get()) && all_known(facts_.free_ranges(n)) && depth_of_reduction(n) == depth)
      group.push_back(n);

  // Inner loops that are open are set aside, with the values that live in them.
  std::vector<Scope> inner(std::make_move_iterator(scopes_.begin() + depth + 1),
                           std::make_move_iterator(scopes_.end()));
  scopes_.resize(depth + 1);
  std::vector<std::pair<const Node*, Value>> inner_values;
  std::erase_if(values_, [&](const auto& entry) {
    if (entry.second.depth <= depth) return false;
    inner_values.push_back(entry);
    return true;
  });
  ReductionLoop(*this, group, depth).emit();
  scopes_.insert(scopes_.end(), std::make_move_iterator(inner.begin()), std::make_move_iterator(inner.end()));
  values_.insert(inner_values.begin(), inner_values.end());
}

bool NestEmitter::all_known(const RangeSet& ranges) const {
  return std::all_of(ranges.begin(), ranges.end(),
                     [&](const Node* r) { return kind_of(Ref(r)) == RangeKind::Lane || values_.contains(r); });
}

int NestEmitter::new_accumulator(int depth, Value initial, DType dtype, int lanes) {
  return add(depth, {.kind = Inst::Acc, .dtype = dtype, .lanes = lanes, .src = {initial.id}});
}

Value NestEmitter::get(int accumulator, DType dtype, int lanes) {
  return {add(top(), {.kind = Inst::AccGet, .dtype = dtype, .lanes = lanes, .src = {accumulator}}), top(), lanes};
}

void NestEmitter::set(int accumulator, Value v, DType dtype, int lanes) {
  add(top(), {.kind = Inst::AccSet, .dtype = dtype, .lanes = lanes, .src = {accumulator, v.id}});
}

Value NestEmitter::identity(Op op, DType dtype) {
  if (is_float(dtype)) return op == Op::ReduceMax ? number(kLowest, dtype) : value(zero_of(dtype));
  return value(constant(op == Op::ReduceMax ? lowest_int(dtype) : 0, dtype));
}

// The operands of the terms, together where they are of equal structure.
void NestEmitter::compute_terms(const Refs& terms) {
  std::vector<Refs> columns;
  for (Ref t : terms) {
    const Refs operands = operands_of_term(t);
    if (columns.empty()) columns.resize(operands.size());
    if (columns.size() != operands.size()) return;
    for (size_t i = 0; i < operands.size(); ++i) columns[i].push_back(operands[i]);
  }
  for (Refs& column : columns) compute_together(std::move(column));
}

Value NestEmitter::sum_with(Value sum, Ref term) {
  if (is_open(term)) {
    const auto [x, y, z] = FmaView(term);
    if (is_open(z)) sum = sum_with(sum, z);
    return alu(Op::Fma, term->dtype, {value(x), value(y), sum});
  }
  if (term->op == Op::Dot4 && is_const(Dot4View(term).sum, 0))
    return alu(Op::Dot4, term->dtype, {sum, value(Dot4View(term).x), value(Dot4View(term).y)}, term->arg);
  return alu(Op::Add, term->dtype, {sum, value(term)});
}

Value NestEmitter::exp_of_difference(Value x, Value y, DType dtype) {
  const auto key = std::make_pair(x.id, y.id);
  if (auto it = rescale_.find(key); it != rescale_.end()) return it->second;
  const Value scaled = alu(Op::Mul, dtype, {alu(Op::Sub, dtype, {x, y}), number(kLog2E, dtype)});
  return rescale_[key] = alu(Op::Exp2, dtype, {scaled});
}

// sum' = sum * exp(max - max') + exp(score - max') * value
Value NestEmitter::softmax_step(Ref n, std::span<const Ref> terms, Value sum, Value old_max, Value new_max) {
  const Value keep = exp_of_difference(old_max, new_max, n->dtype);
  const Value weight = exp_of_difference(value(terms[0]), new_max, n->dtype);
  const bool is_one = is_const(terms[1]) && terms[1]->arg.f == 1;
  const Value term = is_one ? weight : alu(Op::Mul, n->dtype, {weight, value(terms[1])});
  return alu(Op::Fma, n->dtype, {sum, keep, term});
}

// The index that a reduction's ranges stand for together, after some were split.
Ref NestEmitter::flat_index(const Refs& ranges) {
  Ref index = ranges[0];
  for (size_t i = 1; i < ranges.size(); ++i) index = index * RangeView(ranges[i]).size + ranges[i];
  return index;
}

// One insertion into k (value, index) pairs in descending order; a later equal value goes behind.
std::vector<Value> NestEmitter::topk_step(Ref term, Value index, int64_t k, const Value* old) {
  const Value x = value(term);
  std::vector<Value> next;
  Value above{};
  for (int64_t j = 0; j < k; ++j) {
    const Value better = alu(Op::Lt, DType::Bool, {old[2 * j], x});
    for (int part = 0; part < 2; ++part) {
      const DType dtype = part ? DType::I32 : term->dtype;
      const Value fresh = part ? index : x;
      const Value moved = j == 0 ? fresh : alu(Op::Where, dtype, {above, old[2 * (j - 1) + part], fresh});
      next.push_back(alu(Op::Where, dtype, {better, moved, old[2 * j + part]}));
    }
    above = better;
  }
  return next;
}

}  // namespace smelt
