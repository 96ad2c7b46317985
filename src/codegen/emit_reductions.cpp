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

int NestEmitter::depth_of(const RangeSet& ranges) const {
  int depth = 0;
  for (const Node* r : ranges)
    if (auto it = values_.find(r); it != values_.end() && kind_of(Ref(r)) != RangeKind::Lane)
      depth = std::max(depth, it->second.depth);
  return depth;
}

// As far out as its ranges allow, but not before what a nest of the tile writes for it.
int NestEmitter::depth_of_reduction(Ref n) {
  const int depth = depth_of(facts_.free_ranges(n));
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
  emit_loop_of(group, depth);
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

void NestEmitter::emit_loop_of(const Refs& group, int depth) {
  // Registers first: their loop comes after them.
  struct Slot {
    Op op;
    DType dtype;
    int lanes, id;
    Value next;
  };
  std::vector<Slot> slots;
  std::map<const Node*, size_t> max_slot;      // by the score whose maximum it is
  std::vector<std::pair<Ref, size_t>> scores;  // the same, in order
  std::map<const Node*, size_t> sum_slot;      // by reduction
  const auto new_slot = [&](Op op, DType dtype, int lanes, Value initial) {
    slots.push_back({op, dtype, lanes, new_accumulator(depth, initial, dtype, lanes), {}});
    return slots.size() - 1;
  };
  const auto slot_of_max = [&](Ref score) {
    if (auto it = max_slot.find(score.get()); it != max_slot.end()) return it->second;
    const size_t slot =
        new_slot(Op::ReduceMax, score->dtype, facts_.lanes(score), identity(Op::ReduceMax, score->dtype));
    scores.emplace_back(score, slot);
    return max_slot[score.get()] = slot;
  };
  for (Ref n : group) {
    const auto terms = ReduceView(n).values;
    if (n->op == Op::ReduceMax) slot_of_max(terms[0]);
    if (n->op == Op::ReduceSum)
      sum_slot[n.get()] = new_slot(n->op, n->dtype, facts_.lanes(n), identity(n->op, n->dtype));
    if (n->op == Op::SoftmaxSum) {
      slot_of_max(terms[0]);
      sum_slot[n.get()] = new_slot(n->op, n->dtype, facts_.lanes(n), number(0, n->dtype));
    }
    if (n->op == Op::TopK)
      for (int64_t j = 0; j < top_count(n); ++j) {
        const size_t v = new_slot(n->op, terms[0]->dtype, 1, number(kLowest, terms[0]->dtype));
        new_slot(n->op, DType::I32, 1, value(constant(j, DType::I32)));
        if (j == 0) sum_slot[n.get()] = v;
      }
  }

  const Refs ranges = own_ranges(group[0]);
  for (Ref r : ranges) open_loop(r);
  if (ahead_ && depth > 0 && facts_.height(group[0]) == 1) ask_ahead();
  std::vector<Value> old;
  for (const Slot& s : slots) old.push_back(get(s.id, s.dtype, s.lanes));
  for (const auto& [score, i] : scores) slots[i].next = alu(Op::Max, slots[i].dtype, {old[i], value(score)});
  for (const auto& [n, i] : sum_slot) slots[i].next = old[i];
  std::set<const Node*> in_unit;
  for (const Refs& sums : sums_in_unit(group)) {
    std::vector<Value> so_far;
    for (Ref n : sums) so_far.push_back(old[sum_slot[n.get()]]);
    const Value product = matrix_dot(MatrixItemView(ReduceView(sums[0]).values[0]).product, so_far);
    for (Ref n : sums) {
      slots[sum_slot[n.get()]].next = matrix_item(ReduceView(n).values[0], product);
      in_unit.insert(n.get());
    }
  }
  size_t most = 0;
  for (Ref n : group) most = std::max(most, n->op == Op::ReduceSum ? ReduceView(n).values.size() : 0);
  for (size_t k = 0; k < most; ++k) {
    Refs sums, column;
    for (Ref n : group)
      if (n->op == Op::ReduceSum && !in_unit.contains(n.get()) && k < ReduceView(n).values.size())
        sums.push_back(n), column.push_back(ReduceView(n).values[k]);
    compute_terms(column);
    for (size_t i = 0; i < sums.size(); ++i) {
      Slot& s = slots[sum_slot[sums[i].get()]];
      s.next = sum_with(s.next, column[i]);
    }
  }
  for (Ref n : group) {
    const auto terms = ReduceView(n).values;
    if (n->op == Op::SoftmaxSum) {
      const size_t i = sum_slot[n.get()], m = max_slot[terms[0].get()];
      slots[i].next = softmax_step(n, terms, old[i], old[m], slots[m].next);
    } else if (n->op == Op::TopK) {
      std::vector<Value> next =
          topk_step(terms[0], value(cast(flat_index(ranges), DType::I32)), top_count(n), &old[sum_slot[n.get()]]);
      for (size_t j = 0; j < next.size(); ++j) slots[sum_slot[n.get()] + j].next = next[j];
    }
  }
  for (const Slot& s : slots) set(s.id, s.next, s.dtype, s.lanes);
  for (size_t i = 0; i < ranges.size(); ++i) close_scope();
  rescale_.clear();

  for (Ref n : group) {
    const auto result = [&](size_t i) { return get(slots[i].id, slots[i].dtype, slots[i].lanes); };
    if (n->op == Op::TopK)
      for (int64_t j = 0; j < top_count(n); ++j) topk_items_[{n.get(), j}] = result(sum_slot[n.get()] + 2 * j + 1);
    values_[n.get()] = n->op == Op::TopK        ? Value{-1, depth, 1}
                       : n->op == Op::ReduceMax ? result(max_slot[ReduceView(n).values[0].get()])
                                                : result(sum_slot[n.get()]);
  }
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
