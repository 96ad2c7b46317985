#include <algorithm>
#include <functional>

#include "codegen/nest_emitter.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr double kLowest = -3.4028234663852886e38;
constexpr double kLog2E = 1.4426950408889634;
constexpr size_t kMostAddends = 2;

int64_t lowest_integer(DType dtype) {
  return is_signed_int(dtype) ? static_cast<int64_t>(~uint64_t{0} << (8 * size_of(dtype) - 1)) : 0;
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
  for (Ref n : siblings_.at({bound_ranges(first), facts_.height(first)}))
    if (!values_.contains(n.get()) && all_known(facts_.free_ranges(n)) &&
        depth_of_reduction(n) == depth)
      group.push_back(n);

  // The loops opened further in are set aside, with the values that live in them.
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
  scopes_.insert(scopes_.end(), std::make_move_iterator(inner.begin()),
                 std::make_move_iterator(inner.end()));
  values_.insert(inner_values.begin(), inner_values.end());
}

bool NestEmitter::all_known(const RangeSet& ranges) const {
  return std::all_of(ranges.begin(), ranges.end(), [&](const Node* r) {
    return kind_of(Ref(r)) == RangeKind::Lane || values_.contains(r);
  });
}

int NestEmitter::new_accumulator(int depth, Value initial, DType dtype, int lanes) {
  return add(depth, {.kind = Inst::Acc, .dtype = dtype, .lanes = lanes, .src = {initial.id}});
}

Value NestEmitter::get(int accumulator, DType dtype, int lanes) {
  return {add(top(), {.kind = Inst::AccGet, .dtype = dtype, .lanes = lanes, .src = {accumulator}}),
          top(), lanes};
}

void NestEmitter::set(int accumulator, Value v, DType dtype, int lanes) {
  add(top(), {.kind = Inst::AccSet, .dtype = dtype, .lanes = lanes, .src = {accumulator, v.id}});
}

Value NestEmitter::identity(Op op, DType dtype) {
  if (is_float(dtype)) return number(op == Op::ReduceMax ? kLowest : 0, dtype);
  return value(constant(op == Op::ReduceMax ? lowest_integer(dtype) : 0, dtype));
}

Ref NestEmitter::greatest_score(const Refs& terms) {
  Ref score = terms[0];
  for (size_t i = 2; i < terms.size(); i += 2) score = binary(Op::Max, score, terms[i]);
  return score;
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
    const size_t slot = new_slot(Op::ReduceMax, score->dtype, facts_.lanes(score),
                                 identity(Op::ReduceMax, score->dtype));
    scores.emplace_back(score, slot);
    return max_slot[score.get()] = slot;
  };
  for (Ref n : group) {
    const Refs terms = terms_of(n);
    if (n->op == Op::ReduceMax) slot_of_max(terms[0]);
    if (n->op == Op::ReduceSum)
      sum_slot[n.get()] =
          new_slot(n->op, n->dtype, facts_.lanes(terms[0]), identity(n->op, n->dtype));
    if (n->op == Op::SoftmaxSum) {
      slot_of_max(greatest_score(terms));
      sum_slot[n.get()] = new_slot(n->op, n->dtype, facts_.lanes(n), number(0, n->dtype));
    }
    if (n->op == Op::TopK)
      for (int64_t j = 0; j < n->arg.i; ++j) {
        const size_t v = new_slot(n->op, terms[0]->dtype, 1, number(kLowest, terms[0]->dtype));
        new_slot(n->op, DType::I32, 1, value(constant(j, DType::I32)));
        if (j == 0) sum_slot[n.get()] = v;
      }
  }

  const Refs ranges = bound_ranges(group[0]);
  for (Ref r : ranges) open_loop(r);
  if (ahead_ && depth > 0 && facts_.height(group[0]) == 1) ask_ahead();
  std::vector<Value> old;
  for (const Slot& s : slots) old.push_back(get(s.id, s.dtype, s.lanes));
  for (const auto& [score, i] : scores)
    slots[i].next = alu(Op::Max, slots[i].dtype, {old[i], value(score)});
  Refs summed;
  std::map<const Node*, std::vector<Addend>> addends;
  for (Ref n : group)
    if (n->op == Op::ReduceSum) {
      summed.push_back(terms_of(n)[0]);
      addends[n.get()] = addends_of(summed.back());
    }
  compute_addends(summed);
  for (Ref n : group) {
    const Refs terms = terms_of(n);
    if (n->op == Op::ReduceSum) {
      Slot& s = slots[sum_slot[n.get()]];
      s.next = sum_of(old[sum_slot[n.get()]], addends[n.get()], s.dtype);
    } else if (n->op == Op::SoftmaxSum) {
      const size_t i = sum_slot[n.get()], m = max_slot[greatest_score(terms).get()];
      slots[i].next = softmax_step(n, terms, old[i], old[m], slots[m].next);
    } else if (n->op == Op::TopK) {
      std::vector<Value> next = topk_step(terms[0], value(cast(flat_index(ranges), DType::I32)),
                                          n->arg.i, &old[sum_slot[n.get()]]);
      for (size_t j = 0; j < next.size(); ++j) slots[sum_slot[n.get()] + j].next = next[j];
    }
  }
  for (const Slot& s : slots) set(s.id, s.next, s.dtype, s.lanes);
  for (size_t i = 0; i < ranges.size(); ++i) close_scope();
  rescale_.clear();

  for (Ref n : group) {
    const auto result = [&](size_t i) { return get(slots[i].id, slots[i].dtype, slots[i].lanes); };
    if (n->op == Op::TopK)
      for (int64_t j = 0; j < n->arg.i; ++j)
        topk_items_[{n.get(), j}] = result(sum_slot[n.get()] + 2 * j + 1);
    values_[n.get()] = n->op == Op::TopK        ? Value{-1, depth, 1}
                       : n->op == Op::ReduceMax ? result(max_slot[terms_of(n)[0].get()])
                                                : result(sum_slot[n.get()]);
  }
}

// What is added to a sum, one by one, as multiply-adds do; a long chain of additions would wait for each.
std::vector<NestEmitter::Addend> NestEmitter::addends_of(Ref term) const {
  std::vector<Addend> out;
  const std::function<void(Ref, Op)> split = [&](Ref n, Op sign) {
    if (!is_float(n->dtype) || (n->op != Op::Add && n->op != Op::Sub) ||
        values_.contains(n.get())) {
      out.push_back({n, sign});
      return;
    }
    split(n->src[0], sign);
    split(n->src[1], n->op == sign ? Op::Add : Op::Sub);
  };
  split(term, Op::Add);
  if (out.size() > kMostAddends) out = {{term, Op::Add}};
  return out;
}

// The addends of terms of equal structure, side by side.
void NestEmitter::compute_addends(const Refs& terms) {
  std::vector<Refs> columns;
  for (Ref t : terms) {
    const std::vector<Addend> addends = addends_of(t);
    if (columns.empty()) columns.resize(addends.size());
    if (columns.size() != addends.size()) return compute_together(terms);
    for (size_t i = 0; i < addends.size(); ++i) columns[i].push_back(addends[i].value);
  }
  for (Refs& column : columns) compute_together(std::move(column));
}

Value NestEmitter::sum_of(Value sum, const std::vector<Addend>& addends, DType dtype) {
  for (const auto& [x, sign] : addends)
    sum = x->op == Op::Dot4 && is_const(x->src[0], 0)
              ? alu(Op::Dot4, dtype, {sum, value(x->src[1]), value(x->src[2])}, x->arg)
              : alu(sign, dtype, {sum, value(x)});
  return sum;
}

Value NestEmitter::exp_of_difference(Value x, Value y, DType dtype) {
  const auto key = std::make_pair(x.id, y.id);
  if (auto it = rescale_.find(key); it != rescale_.end()) return it->second;
  const Value scaled = alu(Op::Mul, dtype, {alu(Op::Sub, dtype, {x, y}), number(kLog2E, dtype)});
  return rescale_[key] = alu(Op::Exp2, dtype, {scaled});
}

// sum' = sum * exp(max - max') + exp(score - max') * value, for each (score, value).
Value NestEmitter::softmax_step(Ref n, const Refs& terms, Value sum, Value old_max, Value new_max) {
  Value next = alu(Op::Mul, n->dtype, {sum, exp_of_difference(old_max, new_max, n->dtype)});
  for (size_t i = 0; i < terms.size(); i += 2) {
    const Value weight = exp_of_difference(value(terms[i]), new_max, n->dtype);
    const Value term = is_const(terms[i + 1]) && terms[i + 1]->arg.f == 1
                           ? weight
                           : alu(Op::Mul, n->dtype, {weight, value(terms[i + 1])});
    next = alu(Op::Add, n->dtype, {next, term});
  }
  return next;
}

// The index that a reduction's ranges stand for together, after some were split.
Ref NestEmitter::flat_index(const Refs& ranges) {
  Ref index = ranges[0];
  for (size_t i = 1; i < ranges.size(); ++i) index = index * ranges[i]->src[0] + ranges[i];
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
      const Value moved =
          j == 0 ? fresh : alu(Op::Where, dtype, {above, old[2 * (j - 1) + part], fresh});
      next.push_back(alu(Op::Where, dtype, {better, moved, old[2 * j + part]}));
    }
    above = better;
  }
  return next;
}

}  // namespace smelt
